/*
 * loop_uring.c: the loop on io_uring: all that was begun goes to the kernel in the one call that
 * also waits, so that with many connections a request costs a small part of a system call.
 */
#include "loop.h"

#include <errno.h>
#include <liburing.h>
#include <sys/socket.h>

enum { ENTRIES = 1024, SECOND_NS = 1000000000, OPERATIONS_A_SOCKET = 2, OPERATIONS_BESIDE = 64 };

/* After an accept that found no descriptor free. */
static struct __kernel_timespec pause_of_accept = {.tv_nsec = 100000000};

/* What a completion is of: a tag in the low bits of a socket's address. */
enum { OF_RECEIVE, OF_SEND, OF_LISTENER, OF_PAUSE, OF_WAKE, OF_NOTHING };
enum { TAG_MASK = 7, TAG_BITS = 3 };

struct loop {
    struct loop_handler handler;
    struct io_uring ring;
    unsigned receive_flags;
    int wake_fd;
    uint64_t wake_count;
    int listeners[LISTENERS_MAX];
    size_t listener_count;
};

static struct loop loops[LOOPS_MAX];

static bool is_available(void)
{
    struct io_uring ring;
    if (io_uring_queue_init(2, &ring, 0) != 0)
        return false;
    io_uring_queue_exit(&ring);
    return true;
}

/* There is always room after a submit: the completions' queue holds all operations. */
static struct io_uring_sqe *next_entry(struct loop *loop)
{
    struct io_uring_sqe *entry;
    while ((entry = io_uring_get_sqe(&loop->ring)) == NULL)
        io_uring_submit(&loop->ring);
    return entry;
}

static void tag(struct io_uring_sqe *entry, void *of, uintptr_t what)
{
    io_uring_sqe_set_data64(entry, (uintptr_t)of | what);
}

static void await_wake(struct loop *loop)
{
    struct io_uring_sqe *entry = next_entry(loop);
    io_uring_prep_read(entry, loop->wake_fd, &loop->wake_count, sizeof loop->wake_count, 0);
    tag(entry, NULL, OF_WAKE);
}

static struct loop *open_loop(const struct loop_setup *setup)
{
    struct loop *loop = &loops[setup->number];
    unsigned most = setup->sockets * OPERATIONS_A_SOCKET + OPERATIONS_BESIDE;
    struct io_uring_params params = {
        .flags = IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP | IORING_SETUP_SINGLE_ISSUER |
                 IORING_SETUP_DEFER_TASKRUN,
        .cq_entries = most < ENTRIES * 2 ? (unsigned)ENTRIES * 2 : most};
    *loop = (struct loop){.handler = setup->handler,
                          .wake_fd = setup->wake_fd,
                          .receive_flags = IORING_RECVSEND_POLL_FIRST};
    int result = io_uring_queue_init_params(ENTRIES, &loop->ring, &params);
    if (result == -EINVAL) { /* a kernel before 6.1 */
        params = (struct io_uring_params){.flags = IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP,
                                          .cq_entries = params.cq_entries};
        loop->receive_flags = 0;
        result = io_uring_queue_init_params(ENTRIES, &loop->ring, &params);
    }
    if (result != 0) {
        errno = -result;
        return NULL;
    }
    await_wake(loop);
    return loop;
}

static void close_loop(struct loop *loop)
{
    io_uring_queue_exit(&loop->ring);
}

static void await_connection(struct loop *loop, size_t listener)
{
    int *of = &loop->listeners[listener];
    struct io_uring_sqe *entry = next_entry(loop);
    io_uring_prep_accept(entry, *of, NULL, NULL, SOCK_CLOEXEC);
    io_uring_sqe_set_data64(entry, listener << TAG_BITS | OF_LISTENER);
}

static void listen_on(struct loop *loop, const int *fds, size_t count)
{
    loop->listener_count = count;
    for (size_t i = 0; i < count; i++) {
        loop->listeners[i] = fds[i];
        await_connection(loop, i);
    }
}

static void stop_listening(struct loop *loop)
{
    for (size_t i = 0; i < loop->listener_count; i++) {
        struct io_uring_sqe *entry = next_entry(loop);
        io_uring_prep_cancel64(entry, i << TAG_BITS | OF_LISTENER, 0);
        tag(entry, NULL, OF_NOTHING);
    }
    loop->listener_count = 0;
}

static bool add(struct loop *loop, struct socket *socket)
{
    (void)loop;
    (void)socket;
    return true;
}

static void receive(struct loop *loop, struct socket *socket, char *to, size_t bytes)
{
    struct io_uring_sqe *entry = next_entry(loop);
    io_uring_prep_recv(entry, socket->fd, to, bytes, 0);
    entry->ioprio = (__u16)(entry->ioprio | loop->receive_flags);
    tag(entry, socket, OF_RECEIVE);
    socket->is_receiving = true;
}

static void send_bytes(struct loop *loop, struct socket *socket, const char *from, size_t bytes)
{
    struct io_uring_sqe *entry = next_entry(loop);
    io_uring_prep_send(entry, socket->fd, from, bytes, MSG_NOSIGNAL);
    tag(entry, socket, OF_SEND);
    socket->is_sending = true;
}

static void wait_for(struct loop *loop, uint64_t wait_ns)
{
    struct io_uring_cqe *first;
    if (wait_ns == 0)
        io_uring_submit_and_get_events(&loop->ring);
    else if (wait_ns == UINT64_MAX)
        io_uring_submit_and_wait(&loop->ring, 1);
    else {
        struct __kernel_timespec limit = {.tv_sec = (long long)(wait_ns / SECOND_NS),
                                          .tv_nsec = (long long)(wait_ns % SECOND_NS)};
        io_uring_submit_and_wait_timeout(&loop->ring, &first, 1, &limit, NULL);
    }
}

static void complete_listener(struct loop *loop, size_t listener, int result)
{
    bool is_listening = listener < loop->listener_count;
    if (result >= 0)
        loop->handler.accepted(loop->handler.context, result);
    if (is_listening && (result >= 0 || result == -ECONNABORTED || result == -EINTR))
        await_connection(loop, listener);
    else if (is_listening) {
        struct io_uring_sqe *entry = next_entry(loop);
        io_uring_prep_timeout(entry, &pause_of_accept, 0, 0);
        io_uring_sqe_set_data64(entry, listener << TAG_BITS | OF_PAUSE);
    }
}

static void complete(struct loop *loop, uint64_t data, int result)
{
    struct socket *socket = (struct socket *)(uintptr_t)(data & ~(uint64_t)TAG_MASK);
    switch (data & TAG_MASK) {
    case OF_RECEIVE:
        socket->is_receiving = false;
        loop->handler.received(loop->handler.context, socket, result);
        break;
    case OF_SEND:
        socket->is_sending = false;
        loop->handler.sent(loop->handler.context, socket, result);
        break;
    case OF_LISTENER: complete_listener(loop, data >> TAG_BITS, result); break;
    case OF_PAUSE:
        if (data >> TAG_BITS < loop->listener_count)
            await_connection(loop, data >> TAG_BITS);
        break;
    case OF_WAKE: await_wake(loop); break;
    default: break;
    }
}

static void serve(struct loop *loop)
{
    struct io_uring_cqe *event;
    while (io_uring_peek_cqe(&loop->ring, &event) == 0) {
        uint64_t data = event->user_data;
        int result = event->res;
        io_uring_cqe_seen(&loop->ring, event);
        complete(loop, data, result);
    }
}

const struct loop_kind loop_uring = {
    .name = "io_uring",
    .is_available = is_available,
    .open = open_loop,
    .close = close_loop,
    .listen = listen_on,
    .stop_listening = stop_listening,
    .add = add,
    .receive = receive,
    .send = send_bytes,
    .wait = wait_for,
    .serve = serve,
};
