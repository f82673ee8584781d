/*
 * loop_epoll.c: the loop on epoll: each socket is registered once, edge by edge, and remembers
 * whether it can be read and written.
 */
#include "loop.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS = 256, MS_NS = 1000000 };

struct loop {
    struct loop_handler handler;
    struct socket *first_ready, *last_ready;
    int epoll;
    int listeners[LISTENERS_MAX];
    size_t listener_count;
    int event_count;
    struct epoll_event events[EVENTS];
};

static struct loop loops[LOOPS_MAX];

static bool is_available(void)
{
    return true;
}

static int watch(struct loop *loop, int fd, uint32_t what, void *pointer)
{
    struct epoll_event event = {.events = what, .data = {.ptr = pointer}};
    return epoll_ctl(loop->epoll, EPOLL_CTL_ADD, fd, &event);
}

static struct loop *open_loop(const struct loop_setup *setup)
{
    struct loop *loop = &loops[setup->number];
    *loop = (struct loop){.handler = setup->handler, .epoll = epoll_create1(EPOLL_CLOEXEC)};
    if (loop->epoll < 0 || watch(loop, setup->wake_fd, EPOLLIN | EPOLLET, NULL) != 0)
        return NULL;
    return loop;
}

static void close_loop(struct loop *loop)
{
    close(loop->epoll);
}

/* Listeners are watched level by level, so one accept an event is enough. */
static void listen_on(struct loop *loop, const int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        loop->listeners[i] = fds[i];
        fcntl(fds[i], F_SETFL, O_NONBLOCK); /* another core may be quicker */
        watch(loop, fds[i], EPOLLIN | EPOLLEXCLUSIVE, &loop->listeners[i]);
    }
    loop->listener_count = count;
}

static void stop_listening(struct loop *loop)
{
    for (size_t i = 0; i < loop->listener_count; i++)
        epoll_ctl(loop->epoll, EPOLL_CTL_DEL, loop->listeners[i], NULL);
    loop->listener_count = 0;
}

static void make_ready(struct loop *loop, struct socket *socket)
{
    bool can = (socket->is_receiving && socket->is_readable) ||
               (socket->is_sending && socket->is_writable);
    if (!can || socket->is_ready)
        return;
    socket->is_ready = true;
    socket->next_ready = NULL;
    *(loop->first_ready == NULL ? &loop->first_ready : &loop->last_ready->next_ready) = socket;
    loop->last_ready = socket;
}

static bool add(struct loop *loop, struct socket *socket)
{
    socket->is_readable = socket->is_hung = socket->is_ready = false;
    socket->is_writable = true;
    return watch(loop, socket->fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, socket) == 0;
}

static void receive(struct loop *loop, struct socket *socket, char *to, size_t bytes)
{
    socket->is_receiving = true;
    socket->to = to;
    socket->to_bytes = bytes;
    make_ready(loop, socket);
}

static void send_bytes(struct loop *loop, struct socket *socket, const char *from, size_t bytes)
{
    socket->is_sending = true;
    socket->from = from;
    socket->from_bytes = bytes;
    make_ready(loop, socket);
}

static void wait_for(struct loop *loop, uint64_t wait_ns)
{
    int timeout = -1;
    if (wait_ns != UINT64_MAX)
        timeout = wait_ns / MS_NS >= INT32_MAX ? INT32_MAX : (int)((wait_ns + MS_NS - 1) / MS_NS);
    if (loop->first_ready != NULL)
        timeout = 0;
    loop->event_count = epoll_wait(loop->epoll, loop->events, EVENTS, timeout);
}

static void accept_one(struct loop *loop, int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0)
        loop->handler.accepted(loop->handler.context, fd);
    else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
        struct timespec pause = {.tv_nsec = MS_NS}; /* no descriptor is left: not at full speed */
        nanosleep(&pause, NULL);
    }
}

static void receive_now(struct loop *loop, struct socket *socket)
{
    ssize_t count = recv(socket->fd, socket->to, socket->to_bytes, MSG_DONTWAIT);
    int result = count < 0 ? -errno : (int)count;
    if (count < (ssize_t)socket->to_bytes && !socket->is_hung)
        socket->is_readable = false; /* an edge will tell of more */
    if (result == -EAGAIN || result == -EINTR)
        return;
    socket->is_receiving = false;
    loop->handler.received(loop->handler.context, socket, result);
}

static void send_now(struct loop *loop, struct socket *socket)
{
    ssize_t count = send(socket->fd, socket->from, socket->from_bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    int result = count < 0 ? -errno : (int)count;
    if (count < (ssize_t)socket->from_bytes && !socket->is_hung)
        socket->is_writable = false;
    if (result == -EAGAIN || result == -EINTR)
        return;
    socket->is_sending = false;
    loop->handler.sent(loop->handler.context, socket, result);
}

static void note(struct loop *loop, const struct epoll_event *event)
{
    char *of = event->data.ptr;
    if (of == NULL)
        return; /* the wake descriptor; its next edge needs no read */
    if (of >= (char *)loop->listeners && of < (char *)(loop->listeners + LISTENERS_MAX)) {
        if (loop->listener_count > 0)
            accept_one(loop, *(int *)(void *)of);
        return;
    }
    struct socket *socket = (struct socket *)(void *)of;
    socket->is_hung |= (event->events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
    socket->is_readable |= socket->is_hung || (event->events & EPOLLIN) != 0;
    socket->is_writable |= (event->events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0;
    make_ready(loop, socket);
}

/* What is made ready meanwhile is served in the next round, so that nobody is kept waiting. The
 * operation that is still under way keeps the socket's memory. */
static void serve(struct loop *loop)
{
    for (int i = 0; i < loop->event_count; i++)
        note(loop, &loop->events[i]);
    loop->event_count = 0;
    struct socket *socket = loop->first_ready;
    loop->first_ready = loop->last_ready = NULL;
    while (socket != NULL) {
        struct socket *next = socket->next_ready;
        bool receives = socket->is_receiving && socket->is_readable;
        bool sends = socket->is_sending && socket->is_writable;
        socket->is_ready = false;
        if (receives)
            receive_now(loop, socket);
        if (sends)
            send_now(loop, socket);
        socket = next;
    }
}

const struct loop_kind loop_epoll = {
    .name = "epoll",
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
