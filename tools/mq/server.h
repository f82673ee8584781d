/*
 * server.h: what calmq is made of: a core is a worker of the executor with its shard, its loop and
 * its connections; the server has the cores.
 *
 * Cores send each other connections, or rather their sessions: a message names a connection, and
 * whoever gets it may run its session until it is sent back. At most two messages for a connection
 * are under way, so inboxes of twice as many places never are full.
 *
 * Owner: as each struct says. Design: docs/mq.md
 */
#ifndef CALM_MQ_SERVER_H
#define CALM_MQ_SERVER_H

#include <calmalloc/exec.h>

#include "keep.h"
#include "loop.h"
#include "options.h"
#include "session.h"

struct connection;

/* Why a connection's time is limited. All deadlines of a kind are equally far when they are set, so
 * that a list of them is in their order. */
enum clock_kind { CLOCK_IDLE, CLOCK_REQUEST, CLOCK_SEND, CLOCK_LINGER, CLOCK_WAIT, CLOCK_KINDS };

struct clock {
    struct connection *first, *last;
};

struct core {
    /* Constant once it is open. */
    _Alignas(64) struct server *server;
    calm_worker *worker;
    calm_pool *buffers; /* a block a connection */
    struct loop *loop;
    uint32_t number;
    int wake_fd;

    /* Its worker's. */
    struct shard shard;
    struct connection *first;         /* all of its connections */
    struct connection *first_ready;   /* whose wait is over     */
    struct clock clocks[CLOCK_KINDS]; /* connections with a deadline */
    bool is_open, is_listening;
    bool is_closing; /* connections end as soon as their replies are sent */

    /* Written by its worker, read by all. */
    _Atomic int state; /* enum core_state */
    _Atomic uint64_t clients, expired;
};

enum core_state { CORE_STARTS, CORE_RUNS, CORE_FAILED };

struct server {
    struct options options;
    struct keep keep;
    const struct loop_kind *loop;
    calm_exec *exec;
    struct core *cores;
    int listeners[LOOPS_MAX][LISTENERS_MAX]; /* of each core */
    size_t listener_count;
    bool is_unix_open; /* the Unix socket is this server's, and goes with it */
    uint64_t started_ns;
    uint16_t port;

    _Atomic uint64_t clients; /* of all cores, so that their number is bounded */
    _Atomic uint64_t turned_away;
    _Atomic uint64_t last_id; /* of a connection */
};

/* --- core.c --- */

/* The hooks of struct calm_exec_events; the context is the server. */
void core_wait(calm_worker *worker, uint64_t wait_ms, void *context);
void core_serve(calm_worker *worker, void *context);
void core_wake(uint32_t number, void *context);

/* Has a core begin to listen, refuse what is new, or end its connections; adds 1 to *answers when
 * that is done. Any thread. */
void core_ask(struct core *core, void (*what)(struct core *core), _Atomic uint32_t *answers);
void core_listen(struct core *core);
void core_refuse(struct core *core);
void core_end(struct core *core);

/* --- connection.c --- */

size_t connection_bytes(const struct options *options);
void connection_accepted(void *core, int fd);
void connection_received(void *core, struct socket *socket, int result);
void connection_sent(void *core, struct socket *socket, int result);

/* The shard's resume: the session's wait is over. */
void connection_resume(struct shard *shard, struct session *session);

/* The shard's next_client and describe. */
struct session *connection_next(struct shard *shard, struct session *session);
size_t connection_describe(struct shard *shard, struct session *session, char line[REPLY_SMALL]);

/* When the next connection's time is over. UINT64_MAX: no one's is limited. */
uint64_t connections_deadline_ns(const struct core *core);

/* Goes on with connections whose wait is over, and ends those whose time is. */
void connections_serve(struct core *core);

/* Sends last replies and closes, all of a core's connections. */
void connections_end(struct core *core);

/* --- info.c --- */

size_t info_write(void *server, char *to, size_t bytes);

/* Blocks that so many bytes of a core's memory hold. */
uint32_t blocks_in(size_t bytes);

#endif
