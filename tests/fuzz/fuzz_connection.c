/*
 * fuzz_connection.c: the program's own connections, with streams of mq_forward_fuzz.c in the place
 * of sockets.
 */
#include <sys/socket.h>
#include <unistd.h>

int stream_close(int fd);
int stream_shutdown(int fd, int how);
ssize_t stream_send(int fd, const void *bytes, size_t count, int flags);
#define close stream_close
#define shutdown stream_shutdown
#define send stream_send

#include "../../tools/mq/connection.c"
