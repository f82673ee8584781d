/*
 * loop.h: asks the kernel for bytes and connections, and says when they have come: by io_uring, or
 * by epoll.
 *
 * An operation is begun by receive() or send() and ends by a call of the handler from serve(), with
 * a count of bytes or a negative errno value. A socket has at most one of each at a time, and its
 * memory stays until both have ended; shutdown(2) makes them end.
 *
 * Owner: one thread a loop, but wake_fd, to which any may write.
 */
#ifndef CALM_MQ_LOOP_H
#define CALM_MQ_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LOOPS_MAX = 64, LISTENERS_MAX = 2 };

struct socket {
    int fd;
    bool is_receiving, is_sending;

    /* The loop's. */
    bool is_readable, is_writable, is_hung, is_ready;
    char *to;
    const char *from;
    size_t to_bytes, from_bytes;
    struct socket *next_ready;
};

struct loop_handler {
    void (*accepted)(void *context, int fd);
    void (*received)(void *context, struct socket *socket, int result); /* 0: its end */
    void (*sent)(void *context, struct socket *socket, int result);
    void *context;
};

struct loop_setup {
    struct loop_handler handler;
    uint32_t number;  /* of the loop, below LOOPS_MAX */
    uint32_t sockets; /* at most */
    int wake_fd;      /* an eventfd: what is written to it ends a wait */
};

struct loop;

struct loop_kind {
    const char *name;
    bool (*is_available)(void);
    /* On the thread that will use it. NULL: errno says why. */
    struct loop *(*open)(const struct loop_setup *setup);
    void (*close)(struct loop *loop); /* any thread, when its own has ended */
    void (*listen)(struct loop *loop, const int *fds, size_t count);
    void (*stop_listening)(struct loop *loop);
    bool (*add)(struct loop *loop, struct socket *socket); /* false: errno says why */
    void (*receive)(struct loop *loop, struct socket *socket, char *to, size_t bytes);
    void (*send)(struct loop *loop, struct socket *socket, const char *from, size_t bytes);
    /* Hands over what was begun; waits for an event, at most so long. UINT64_MAX: no limit. */
    void (*wait)(struct loop *loop, uint64_t wait_ns);
    void (*serve)(struct loop *loop);
};

extern const struct loop_kind loop_epoll;
extern const struct loop_kind loop_uring; /* not available where it was not built */

#endif
