/*
 * connection.c: a client: its bytes come in, its session runs here or on the core of its keys, its
 * replies go out, in turns.
 *
 * A connection belongs to the core that accepted it, its home, which alone touches its socket and
 * the time. While its session is away (`away` messages are to come) home only adds what it receives
 * behind what the session may read. Bytes are received all the time, as far as there is room: so a
 * client that hangs up is noticed while it waits for an item, and one that sends without reading is
 * not read further.
 *
 * Owner: its home; `session` whoever has it. Design: docs/mq.md
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server.h"

enum { LINGER_S = 2 };

#define SECOND_NS ((uint64_t)1000000000)

enum connection_state {
    OPEN,
    LINGERS, /* its last reply is out; it is read to its end, so that the reply is not lost */
    DEAD     /* shut down; goes when nothing is under way any more */
};

struct connection {
    _Alignas(64) struct session session; /* first, so that one is the other */

    /* Home's. */
    _Alignas(64) struct socket socket;
    struct core *core;
    struct connection *next, *before; /* of the core's */
    struct connection *next_ready;
    size_t input_end;      /* bytes in session.input  */
    size_t sent;           /* of session.reply_bytes  */
    uint64_t deadline_ns;  /* while it is on a clock */
    enum clock_kind clock; /* CLOCK_KINDS: on none */
    struct connection *next_timed, *before_timed;
    uint64_t accepted_ns, received_ns;
    uint32_t lent_to; /* while it is away */
    enum connection_state state;
    uint8_t away;      /* messages to come, while the session is away  */
    bool is_cancelled; /* the core that has it was asked to end a wait */
    bool is_ready;     /* in the list of the core                      */
    bool may_run;      /* there may be a request that was not run      */
    bool is_partial;   /* a part of a request is there                 */
    bool is_last;      /* closes after its replies                     */
    bool has_ended;    /* the client sends no more                     */

    /* What the core that had the session says of it. */
    enum session_result result;
};

struct message {
    struct connection *connection;
};

static void go(struct core *core, struct connection *connection);

size_t connection_bytes(const struct options *options)
{
    return sizeof(struct connection) + options->message_bytes * 2 + (size_t)REPLY_EXTRA * 2;
}

static struct connection *of_socket(struct socket *socket)
{
    return (struct connection *)(void *)((char *)socket - offsetof(struct connection, socket));
}

static void count(_Atomic uint64_t *counter, uint64_t change)
{
    uint64_t value = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, value + change, memory_order_relaxed);
}

/* --- its time --- */

static void stop_clock(struct core *core, struct connection *connection)
{
    if (connection->clock == CLOCK_KINDS)
        return;
    struct clock *clock = &core->clocks[connection->clock];
    struct connection *next = connection->next_timed, *before = connection->before_timed;
    *(before == NULL ? &clock->first : &before->next_timed) = next;
    *(next == NULL ? &clock->last : &next->before_timed) = before;
    connection->clock = CLOCK_KINDS;
}

static uint64_t seconds_of(const struct options *options, enum clock_kind kind)
{
    switch (kind) {
    case CLOCK_IDLE: return options->idle_s;
    case CLOCK_REQUEST: return options->request_s;
    case CLOCK_SEND: return options->send_s;
    case CLOCK_WAIT: return options->keepalive_s;
    default: return LINGER_S;
    }
}

static void set_clock(struct core *core, struct connection *connection, enum clock_kind kind)
{
    uint64_t seconds = seconds_of(&core->server->options, kind);
    stop_clock(core, connection);
    if (seconds == 0)
        return;
    struct clock *clock = &core->clocks[kind];
    connection->deadline_ns = core->shard.now_ns + seconds * SECOND_NS;
    connection->clock = kind;
    connection->next_timed = NULL;
    connection->before_timed = clock->last;
    *(clock->last == NULL ? &clock->first : &clock->last->next_timed) = connection;
    clock->last = connection;
}

/* What it may take as it stands. A part of a request does not get more time by growing. */
static void set_time(struct core *core, struct connection *connection)
{
    bool is_held = connection->away > 0 || connection->session.waiting > 0;
    bool is_partial = !is_held && connection->input_end > connection->session.consumed;
    bool may_idle = core->server->options.idle_s == 0;
    if (connection->state != OPEN)
        return;
    if (connection->socket.is_sending)
        set_clock(core, connection, CLOCK_SEND);
    else if (is_held || (!is_partial && may_idle))
        set_clock(core, connection, CLOCK_WAIT);
    else if (!is_partial)
        set_clock(core, connection, CLOCK_IDLE);
    else if (!connection->is_partial)
        set_clock(core, connection, CLOCK_REQUEST);
    connection->is_partial = is_partial && !connection->socket.is_sending;
}

/* Whether the client's machine has not answered for the time of keepalive, although something that
 * was sent is in flight: then there is no keepalive. */
static bool is_machine_gone(struct core *core, const struct connection *connection)
{
    struct tcp_info info;
    socklen_t bytes = sizeof info;
    return getsockopt(connection->socket.fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) == 0 &&
           info.tcpi_unacked > 0 &&
           info.tcpi_last_ack_recv / 1000 >= core->server->options.keepalive_s;
}

/* --- its end --- */

static void reap(struct core *core, struct connection *connection)
{
    if (connection->away > 0 || connection->is_ready || connection->socket.is_receiving ||
        connection->socket.is_sending)
        return;
    close(connection->socket.fd);
    stop_clock(core, connection);
    *(connection->before == NULL ? &core->first : &connection->before->next) = connection->next;
    if (connection->next != NULL)
        connection->next->before = connection->before;
    calm_pool_free(core->buffers, connection);
    count(&core->clients, (uint64_t)-1);
    atomic_fetch_sub(&core->server->clients, 1);
}

/* There is always a place for it; an inbox says that it is full also where others were quicker. */
static void tell(struct core *core, uint32_t to, calm_task_function what,
                 struct connection *connection)
{
    struct message message = {connection};
    struct calm_task task = {
        .function = what, .payload = &message, .payload_bytes = sizeof message};
    while (calm_exec_send(core->server->exec, to, &task) == CALM_EXEC_EFULL)
        continue;
}

static void cancel_here(calm_worker *worker, void *payload);

/* Ends its wait for an item, wherever it waits. That has no answer, so what was asked behind it has
 * none, either. */
static void cancel(struct core *core, struct connection *connection)
{
    if (connection->away == 0) {
        connection->is_last |= session_cancel(&core->shard, &connection->session);
    } else if (!connection->is_cancelled) {
        connection->is_cancelled = true;
        connection->away++;
        tell(core, connection->lent_to, cancel_here, connection);
    }
}

static void kill(struct core *core, struct connection *connection)
{
    if (connection->state != DEAD) {
        connection->state = DEAD;
        stop_clock(core, connection);
        shutdown(connection->socket.fd, SHUT_RDWR);
        cancel(core, connection);
    }
    reap(core, connection);
}

/* Waits for the client to see its last reply: a close now could make the kernel drop it. */
static void linger(struct core *core, struct connection *connection)
{
    connection->state = LINGERS;
    connection->input_end = connection->session.consumed = connection->session.input_bytes = 0;
    set_clock(core, connection, CLOCK_LINGER);
    shutdown(connection->socket.fd, SHUT_WR);
}

/* --- bytes in --- */

/* Asks for more, if there is room for it. */
static void receive(struct core *core, struct connection *connection)
{
    struct session *session = &connection->session;
    if (connection->state == DEAD || connection->socket.is_receiving || connection->has_ended)
        return;
    if (connection->away == 0 && session->consumed > 0) {
        connection->input_end -= session->consumed;
        memmove(session->input, session->input + session->consumed, connection->input_end);
        session->input_bytes -= session->consumed;
        session->consumed = 0;
    }
    size_t room = core->server->options.message_bytes - connection->input_end;
    if (room > 0)
        core->server->loop->receive(core->loop, &connection->socket,
                                    session->input + connection->input_end, room);
}

void connection_received(void *context, struct socket *socket, int result)
{
    struct core *core = context;
    struct connection *connection = of_socket(socket);
    if (connection->state == DEAD) {
        reap(core, connection);
        return;
    }
    if (result <= 0) {
        connection->has_ended = true;
        if (result < 0 || connection->state == LINGERS) {
            kill(core, connection);
            return;
        }
        cancel(core, connection);
    } else if (connection->state == OPEN) {
        connection->received_ns = core->shard.now_ns;
        connection->input_end += (size_t)result;
        connection->may_run = true;
    }
    go(core, connection);
}

/* --- replies out --- */

static void send_rest(struct core *core, struct connection *connection)
{
    struct session *session = &connection->session;
    core->server->loop->send(core->loop, &connection->socket, session->reply + connection->sent,
                             session->reply_bytes - connection->sent);
}

void connection_sent(void *context, struct socket *socket, int result)
{
    struct core *core = context;
    struct connection *connection = of_socket(socket);
    if (result <= 0 || connection->state == DEAD) {
        kill(core, connection);
        return;
    }
    connection->sent += (size_t)result;
    if (connection->sent < connection->session.reply_bytes) {
        send_rest(core, connection);
        set_time(core, connection);
        return;
    }
    connection->session.reply_bytes = 0;
    connection->sent = 0;
    go(core, connection);
}

/* --- its session --- */

static void come_back(calm_worker *worker, void *payload);

static struct core *core_of(const struct connection *connection, const calm_worker *worker)
{
    return &connection->core->server->cores[calm_worker_core(worker)];
}

static void give_back(struct core *here, struct session *session, enum session_result result)
{
    struct connection *connection = (struct connection *)(void *)session;
    connection->result = result;
    tell(here, session->home, come_back, connection);
}

/* On the core of the key. */
static void run_here(calm_worker *worker, void *payload)
{
    struct connection *connection = ((struct message *)payload)->connection;
    struct core *core = core_of(connection, worker);
    enum session_result result = SESSION_CLOSE;
    if (!core->is_closing)
        result = session_run(&core->shard, &connection->session);
    if (result != SESSION_WAITS)
        give_back(core, &connection->session, result);
}

static void cancelled(calm_worker *worker, void *payload);

static void cancel_here(calm_worker *worker, void *payload)
{
    struct connection *connection = ((struct message *)payload)->connection;
    struct core *core = core_of(connection, worker);
    if (session_cancel(&core->shard, &connection->session))
        give_back(core, &connection->session, SESSION_CLOSE);
    tell(core, connection->session.home, cancelled, connection);
}

static void lend(struct core *core, struct connection *connection)
{
    connection->away = 1;
    connection->lent_to = connection->session.owner;
    connection->is_cancelled = false;
    tell(core, connection->lent_to, run_here, connection);
    if (connection->has_ended)
        cancel(core, connection); /* nobody is there to wait: the end came before the wait */
}

/* Runs what is there; how far it came. */
static enum session_result run(struct core *core, struct connection *connection)
{
    if (core->is_closing)
        return SESSION_CLOSE;
    connection->may_run = false;
    connection->session.input_bytes = connection->input_end;
    return session_run(&core->shard, &connection->session);
}

/* What follows from where a run came to. */
static void follow(struct core *core, struct connection *connection, enum session_result result)
{
    if (result == SESSION_AWAY) {
        receive(core, connection);
        lend(core, connection);
    }
    if (result == SESSION_WAITS && connection->has_ended)
        cancel(core, connection);
    if (result == SESSION_FLUSH)
        connection->may_run = true;
    if (result == SESSION_CLOSE)
        connection->is_last = true;
}

static bool is_held(const struct connection *connection)
{
    return connection->away > 0 || connection->session.waiting > 0 ||
           connection->socket.is_sending || connection->is_ready;
}

/* Does what can be done: sends, runs, ends; then asks for more. */
static void go(struct core *core, struct connection *connection)
{
    while (connection->state == OPEN && !is_held(connection)) {
        if (connection->session.reply_bytes > 0)
            send_rest(core, connection);
        else if (connection->is_last || core->is_closing)
            linger(core, connection);
        else if (connection->may_run)
            follow(core, connection, run(core, connection));
        else if (connection->has_ended) {
            kill(core, connection);
            return;
        } else
            break;
    }
    if (connection->state == LINGERS && connection->has_ended) {
        kill(core, connection);
        return;
    }
    receive(core, connection);
    set_time(core, connection);
}

static void arrive(struct core *core, struct connection *connection)
{
    connection->away--;
    if (connection->state == DEAD) {
        reap(core, connection);
        return;
    }
    if (connection->away > 0)
        return;
    if (connection->input_end > connection->session.input_bytes)
        connection->may_run = true;
    follow(core, connection, connection->result);
    go(core, connection);
}

/* At home again. */
static void come_back(calm_worker *worker, void *payload)
{
    struct connection *connection = ((struct message *)payload)->connection;
    arrive(core_of(connection, worker), connection);
}

static void cancelled(calm_worker *worker, void *payload)
{
    come_back(worker, payload);
}

void connection_resume(struct shard *shard, struct session *session)
{
    struct core *here = (struct core *)(void *)((char *)shard - offsetof(struct core, shard));
    struct connection *connection = (struct connection *)(void *)session;
    if (session->home != shard->core) {
        give_back(here, session, SESSION_FLUSH); /* what follows has not run yet */
        return;
    }
    connection->is_ready = true;
    connection->may_run = true;
    connection->next_ready = here->first_ready;
    here->first_ready = connection;
}

/* --- what CLIENT LIST says of it --- */

struct session *connection_next(struct shard *shard, struct session *session)
{
    struct core *core = (struct core *)(void *)((char *)shard - offsetof(struct core, shard));
    struct connection *connection = session == NULL ? core->first
                                                    : ((struct connection *)(void *)session)->next;
    while (connection != NULL && connection->state == DEAD)
        connection = connection->next;
    return connection == NULL ? NULL : &connection->session;
}

typedef int name_function(int fd, struct sockaddr *address, socklen_t *bytes);

/* ADDRESS:PORT of one side of a socket; of a Unix socket its path and 0, as Redis has it. */
static void write_place(const struct core *core, int fd, name_function *name, char text[128])
{
    union {
        struct sockaddr any;
        struct sockaddr_in in;
        char room[128];
    } address;
    socklen_t bytes = sizeof address;
    char number[INET_ADDRSTRLEN];
    if (name(fd, &address.any, &bytes) == 0 && address.any.sa_family == AF_INET)
        snprintf(text, 128, "%s:%u",
                 inet_ntop(AF_INET, &address.in.sin_addr, number, sizeof number),
                 ntohs(address.in.sin_port));
    else
        snprintf(text, 128, "%s:0", core->server->options.unix_path);
}

/* Reads only what is home's, as another core may have the session. */
size_t connection_describe(struct shard *shard, struct session *session, char line[REPLY_SMALL])
{
    struct core *core = (struct core *)(void *)((char *)shard - offsetof(struct core, shard));
    const struct connection *connection = (struct connection *)(void *)session;
    char there[128], here[128];
    write_place(core, connection->socket.fd, getpeername, there);
    write_place(core, connection->socket.fd, getsockname, here);
    int bytes = snprintf(
        line, REPLY_SMALL,
        "id=%llu addr=%s laddr=%s fd=%d name=%s age=%llu idle=%llu db=0 user=default lib-name=%s "
        "lib-ver=%s\n",
        (unsigned long long)session->id, there, here, connection->socket.fd,
        session->names[CLIENT_NAME],
        (unsigned long long)((shard->now_ns - connection->accepted_ns) / SECOND_NS),
        (unsigned long long)((shard->now_ns - connection->received_ns) / SECOND_NS),
        session->names[CLIENT_LIB_NAME], session->names[CLIENT_LIB_VERSION]);
    return (size_t)bytes < REPLY_SMALL ? (size_t)bytes : (size_t)REPLY_SMALL - 1;
}

/* --- all of a core's --- */

static void turn_away(struct core *core, int fd)
{
    static const char words[] = "-ERR max number of clients reached\r\n";
    send(fd, words, sizeof words - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    close(fd);
    atomic_fetch_sub(&core->server->clients, 1);
    atomic_fetch_add(&core->server->turned_away, 1);
}

void connection_accepted(void *context, int fd)
{
    struct core *core = context;
    const struct options *options = &core->server->options;
    uint64_t clients = atomic_fetch_add(&core->server->clients, 1);
    bool has_place = clients < options->connections && core->is_listening;
    struct connection *connection = has_place
                                        ? calm_pool_alloc(core->buffers, connection_bytes(options))
                                        : NULL;
    if (connection == NULL) {
        turn_away(core, fd);
        return;
    }
    char *input = (char *)(connection + 1);
    *connection = (struct connection){.core = core,
                                      .socket.fd = fd,
                                      .next = core->first,
                                      .clock = CLOCK_KINDS,
                                      .accepted_ns = core->shard.now_ns,
                                      .received_ns = core->shard.now_ns};
    connection->session = (struct session){.input = input,
                                           .reply = input + options->message_bytes,
                                           .reply_capacity = options->message_bytes +
                                                             (size_t)REPLY_EXTRA * 2,
                                           .id = atomic_fetch_add(&core->server->last_id, 1) + 1,
                                           .home = core->number};
    if (core->first != NULL)
        core->first->before = connection;
    core->first = connection;
    count(&core->clients, 1);
    if (core->server->loop->add(core->loop, &connection->socket))
        go(core, connection);
    else
        kill(core, connection);
}

static void serve_ready(struct core *core)
{
    while (core->first_ready != NULL) {
        struct connection *connection = core->first_ready;
        core->first_ready = connection->next_ready;
        connection->is_ready = false;
        if (connection->state == DEAD)
            reap(core, connection);
        else
            go(core, connection);
    }
}

static void end_time(struct core *core, struct connection *connection)
{
    bool is_wait = connection->clock == CLOCK_WAIT;
    if (is_wait && !is_machine_gone(core, connection)) {
        stop_clock(core, connection); /* from now on it is keepalive's */
        return;
    }
    count(&core->expired, connection->state == OPEN);
    kill(core, connection);
}

uint64_t connections_deadline_ns(const struct core *core)
{
    uint64_t deadline_ns = UINT64_MAX;
    for (size_t kind = 0; kind < CLOCK_KINDS; kind++) {
        const struct connection *first = core->clocks[kind].first;
        if (first != NULL && first->deadline_ns < deadline_ns)
            deadline_ns = first->deadline_ns;
    }
    return deadline_ns;
}

static void expire(struct core *core)
{
    for (size_t kind = 0; kind < CLOCK_KINDS; kind++) {
        struct clock *clock = &core->clocks[kind];
        while (clock->first != NULL && clock->first->deadline_ns <= core->shard.now_ns)
            end_time(core, clock->first);
    }
}

void connections_serve(struct core *core)
{
    shard_sweep(&core->shard, false);
    serve_ready(core);
    expire(core);
}

void connections_end(struct core *core)
{
    for (struct connection *connection = core->first, *next; connection != NULL;
         connection = next) {
        next = connection->next;
        if (connection->state == OPEN)
            go(core, connection);
    }
}
