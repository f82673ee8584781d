/*
 * wait.h: who waits for an item, by key, apart from the queues: a wait takes none of their memory.
 */
#ifndef CALM_MQ_WAIT_H
#define CALM_MQ_WAIT_H

#include "session.h"

/* Lets a session wait for an item of the words, of which the last is a move's target. Nothing of
 * its replies is left to be sent. */
void wait_begin(struct shard *shard, struct session *session, const struct word *words,
                size_t word_count, struct wait wait);

#endif
