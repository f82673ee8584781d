/*
 * command.h: what the files of commands share.
 *
 * A command first looks whether its reply fits behind those that wait to be sent, and changes
 * nothing before it does. So one that is told SESSION_FLUSH is simply run again. There is always
 * room for a reply of REPLY_SMALL bytes.
 */
#ifndef CALM_MQ_COMMAND_H
#define CALM_MQ_COMMAND_H

#include "reply.h"
#include "wait.h"

enum { DONE = -1 }; /* beside the values of enum session_result: the next request may follow */

extern const char out_of_memory[], stopping[], other_core[];
extern const struct word nothing;

bool is_word(struct word word, const char *name);
void count(_Atomic uint64_t *counter, uint64_t value);
int refuse(struct shard *shard, struct session *session, const char *line);

/* --- command_queue.c --- */

struct queue *find(struct shard *shard, struct word key);

/* The key's queue with room for so many bytes at an end, or NULL, and nothing has changed. */
struct queue *room_for(struct shard *shard, struct word key, enum queue_end end, size_t bytes);

void reply_item(struct shard *shard, struct session *session, struct queue *queue,
                enum queue_end end);

/* Moves the item at an end of a queue, which stays even if it is empty, to an end of another, and
 * replies it. Returns the other queue; or NULL, as there is no room, and nothing has changed. */
struct queue *move_item(struct shard *shard, struct session *session, struct queue *source,
                        struct word target);

int run_lpush(struct shard *shard, struct session *session);
int run_rpush(struct shard *shard, struct session *session);
int run_rpop(struct shard *shard, struct session *session);
int run_lpop(struct shard *shard, struct session *session);
int run_brpop(struct shard *shard, struct session *session);
int run_blpop(struct shard *shard, struct session *session);
int run_lmove(struct shard *shard, struct session *session);

/* --- command_key.c --- */

int run_llen(struct shard *shard, struct session *session);
int run_lrange(struct shard *shard, struct session *session);
int run_del(struct shard *shard, struct session *session);
int run_exists(struct shard *shard, struct session *session);
int run_type(struct shard *shard, struct session *session);

/* --- command_job.c --- */

int run_submit(struct shard *shard, struct session *session);
int run_result(struct shard *shard, struct session *session);

/* --- command_client.c --- */

int run_ping(struct shard *shard, struct session *session);
int run_echo(struct shard *shard, struct session *session);
int run_info(struct shard *shard, struct session *session);
int run_config(struct shard *shard, struct session *session);
int run_client(struct shard *shard, struct session *session);
int run_select(struct shard *shard, struct session *session);
int run_hello(struct shard *shard, struct session *session);
int run_auth(struct shard *shard, struct session *session);
int run_reset(struct shard *shard, struct session *session);
int run_quit(struct shard *shard, struct session *session);
int run_http(struct shard *shard, struct session *session);
int run_shutdown(struct shard *shard, struct session *session);

#endif
