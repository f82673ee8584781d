/*
 * mq_clients.h: clients of calmq without sockets: what they ask, and whether what they hear
 * can be right.
 *
 * Every item has a number of its own, so that one that is heard twice, from a queue it was not put
 * into, out of order, or after its push was refused is seen at once. Whoever drives the clients
 * carries the bytes, both ways, in pieces as it likes.
 *
 * Owner: the one thread of a test.
 */
#ifndef CALM_FUZZ_MQ_FORWARD_CLIENTS_H
#define CALM_FUZZ_MQ_FORWARD_CLIENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CLIENTS = 4,
    CLIENT_KEYS = 8,
    CLIENT_ASKS_MAX = 96, /* a connection */
    CLIENT_STREAM_BYTES = 64 << 10,
};

struct client {
    char asks[CLIENT_STREAM_BYTES]; /* what it says; of that `read` was carried */
    size_t ask_bytes, read;
    bool has_hung_up; /* says no more, and still listens */
    bool is_cut;      /* its replies may be lost         */
    size_t asked, answered;
};
extern struct client clients[CLIENTS];

/* Forgets all. `key_cores` says which core owns each key. */
void clients_start(const uint8_t *key_cores);

/* A new connection takes the place of an old one. */
void client_connect(unsigned number);

/* Has it ask what `what` says, with `more` to choose keys by. */
void client_ask(unsigned number, uint8_t what, uint8_t more);

/* Replies reach it: stops the program if they cannot be right. */
void client_hear(unsigned number, const char *bytes, size_t count);

/* An item is in a queue when all is over. */
void clients_left(const char *key, size_t key_bytes, const char *item, size_t bytes);

/* Whether it was told all that it asked for, or that its connection ends. */
bool client_is_content(unsigned number);

/* The keys, a set, of the BRPOP that it is to be answered next; 0: that is another request. */
uint32_t client_awaits(unsigned number);

/* Its connection breaks: replies may be lost, and it asks no more. */
void client_cut(unsigned number);

/* All items that were accepted were heard, or are left, where nobody's replies could be lost. */
void clients_check_items(void);

const char *client_key(unsigned key);

/* Says what is wrong and stops the program. */
__attribute__((noreturn)) void client_fail(const char *sentence);

#endif
