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
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 511 };

static bool complain(const char *what)
{
    fprintf(stderr, "calmq: cannot listen on %s: %s.\n", what, strerror(errno));
    return false;
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
    close(fd);
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
        return complain(what);
    }
    if (!find_port(&address))
        return complain(what);
    server->port = ntohs(address.sin_port);
    for (uint32_t core = 0; core < server->options.cores; core++) {
        int fd = open_tcp(&address, true);
        if (fd < 0 || listen(fd, BACKLOG) != 0)
            return complain(what);
        server->listeners[core][server->listener_count] = fd;
    }
    server->listener_count++;
    return true;
}

static bool listen_unix(struct server *server)
{
    const char *path = server->options.unix_path;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (strlen(path) >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return complain(path);
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    /* A socket that nobody listens on is what an earlier run left. */
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0 && errno == ECONNREFUSED)
        unlink(path);
    close(fd);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(fd, BACKLOG) != 0)
        return complain(path);
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
    if (server->options.unix_path != NULL)
        unlink(server->options.unix_path);
}
