/*
 * listen.h: the sockets that a server listens on.
 */
#ifndef CALM_MQ_LISTEN_H
#define CALM_MQ_LISTEN_H

#include <stdbool.h>

#include "server.h"

/* Opens them: TCP one for each core, Unix one for all. False: it said what is wrong. */
bool listen_open(struct server *server);
void listen_close(struct server *server);

/* Removes the Unix socket, if this server made it; of listen_close(), and where a start fails. */
void listen_remove(const struct server *server);

#endif
