/*
 * reply.h: writes replies behind those that wait to be sent, as RESP2 or, where the client chose it
 * by HELLO 3, as RESP3. Whoever writes has looked for room.
 */
#ifndef CALM_MQ_REPLY_H
#define CALM_MQ_REPLY_H

#include <string.h>

#include "session.h"

enum { NUMBER_BYTES_MAX = 32 };

static inline bool has_room(const struct session *session, size_t bytes)
{
    return session->reply_capacity - session->reply_bytes >= bytes;
}

void reply_bytes(struct session *session, const char *bytes, size_t count);
void reply(struct session *session, const char *line);

/* MARK NUMBER and the end of the line. */
void reply_header(struct session *session, char mark, uint64_t number);

void reply_word(struct session *session, struct word word);
void reply_text(struct session *session, const char *text); /* as a word */

/* Nothing, where an item or a list of them could be. */
void reply_null(struct session *session);
void reply_null_list(struct session *session);

/* What so many pairs of a name and a value follow. */
void reply_map(struct session *session, uint64_t pairs);

/* Words for people; RESP3 has a kind for them. */
void reply_verbatim(struct session *session, struct word word);

/* A sentence, its line at most REPLY_SMALL bytes; what does not fit is cut. */
__attribute__((format(printf, 2, 3))) void complain(struct session *session, const char *format,
                                                    ...);

/* A part of a request, for a sentence: nothing but letters that a line can hold. */
enum { SHOWN_BYTES_MAX = 129 };
void show(struct word word, char shown[SHOWN_BYTES_MAX]);

#endif
