/*
 * listen.c: on TCP each core has a socket of its own at one port, among which the kernel divides
 * the connections (SO_REUSEPORT). A Unix socket is one, from which all cores accept.
 */
#include "listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* The kernel closes the sockets of a server that was killed a moment after it is gone, where
 * io_uring has them. */
enum { BACKLOG = 511, TRIES = 20, TRY_NS = 25 * 1000 * 1000 };

static bool complain(const char *what, const char *advice)
{
    fprintf(stderr, "calmq: cannot listen on %s: %s; %s.\n", what, strerror(errno), advice);
    return false;
}

/* Whether an address that is in use is worth another try, after a moment. */
static bool may_try_again(unsigned *tries)
{
    if (errno != EADDRINUSE || ++*tries == TRIES)
        return false;
    nanosleep(&(struct timespec){.tv_nsec = TRY_NS}, NULL);
    return true;
}

/*
 * A machine that vanished is found by keepalive: probes from half of the time on, at intervals of a
 * quarter. TCP_USER_TIMEOUT is not used: it would also end a connection whose client is alive but
 * does not read. What keepalive does not see, data in flight, is connection.c's.
 */
static void set_keepalive(int fd, int seconds)
{
    int on = 1, idle = seconds / 2, interval = seconds / 4 > 0 ? seconds / 4 : 1;
    int probes = (seconds - idle) / interval;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

static int open_tcp(const struct sockaddr_in *address, bool is_shared)
{
    int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* what is accepted inherits it */
    if (is_shared)
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    if (bind(fd, (const struct sockaddr *)address, sizeof *address) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* The address with a port that is free; another server of ours that shares it is found, too. */
static bool find_port(struct sockaddr_in *address)
{
    socklen_t bytes = sizeof *address;
    int fd = open_tcp(address, false);
    bool is_found = fd >= 0 && getsockname(fd, (struct sockaddr *)address, &bytes) == 0;
    if (fd >= 0)
        close(fd);
    return is_found;
}

static bool listen_tcp(struct server *server)
{
    char what[64];
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)server->options.port)};
    snprintf(what, sizeof what, "%s:%d", server->options.bind, server->options.port);
    if (inet_pton(AF_INET, server->options.bind, &address.sin_addr) != 1) {
        errno = EINVAL;
        return complain(what, "--bind takes an IPv4 address of this machine");
    }
    unsigned tries = 0;
    bool is_found;
    do
        is_found = find_port(&address);
    while (!is_found && may_try_again(&tries));
    if (!is_found)
        return complain(what, errno == EADDRINUSE ? "--port takes another, 0 one that is free"
                                                  : "--bind and --port take another");
    server->port = ntohs(address.sin_port);
    for (uint32_t core = 0; core < server->options.cores; core++) {
        int fd = open_tcp(&address, true);
        if (fd < 0 || listen(fd, BACKLOG) != 0)
            return complain(what, "--bind and --port take another");
        set_keepalive(fd, (int)server->options.keepalive_s); /* what is accepted inherits it */
        server->listeners[core][server->listener_count] = fd;
    }
    server->listener_count++;
    return true;
}

/* Removes a socket that nobody listens on: an earlier run left it. Whatever else is there stays. */
static void remove_left(const struct sockaddr_un *address)
{
    struct stat facts;
    if (lstat(address->sun_path, &facts) != 0 || !S_ISSOCK(facts.st_mode))
        return;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    if (connect(fd, (const struct sockaddr *)address, sizeof *address) != 0 &&
        errno == ECONNREFUSED)
        unlink(address->sun_path);
    close(fd);
}

static int open_unix(const struct sockaddr_un *address)
{
    remove_left(address);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)address, sizeof *address) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static bool listen_unix(struct server *server)
{
    const char *path = server->options.unix_path;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return complain(path, "--unix takes a path of at most 107 bytes");
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    unsigned tries = 0;
    int fd;
    do
        fd = open_unix(&address);
    while (fd < 0 && may_try_again(&tries));
    if (fd < 0)
        return complain(path, "--unix takes a path at which nothing is, in a folder that there is");
    server->is_unix_open = true;
    if (listen(fd, BACKLOG) != 0)
        return complain(path, "--unix takes another path");
    for (uint32_t core = 0; core < server->options.cores; core++)
        server->listeners[core][server->listener_count] = fd;
    server->listener_count++;
    return true;
}

bool listen_open(struct server *server)
{
    return (server->options.port < 0 || listen_tcp(server)) &&
           (server->options.unix_path == NULL || listen_unix(server));
}

void listen_close(struct server *server)
{
    for (size_t i = 0; i < server->listener_count; i++)
        for (uint32_t core = 0; core < server->options.cores; core++)
            close(server->listeners[core][i]);
    listen_remove(server);
}

void listen_remove(const struct server *server)
{
    if (server->is_unix_open)
        unlink(server->options.unix_path);
}
