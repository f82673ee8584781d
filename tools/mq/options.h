/*
 * options.h: the words of the command line.
 */
#ifndef CALM_MQ_OPTIONS_H
#define CALM_MQ_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

struct options {
    const char *bind, *unix_path, *keep_path, *loop;
    int port; /* -1: none; 0: any that is free */
    uint32_t cores;
    uint32_t connections;
    size_t memory_bytes; /* for queues, of all cores */
    size_t message_bytes;
    uint32_t idle_s, request_s, send_s; /* time-outs; 0: none, of idle_s and send_s */
    uint32_t keepalive_s, redeliver_s;
};

/* Reads them. Returns 0; or says what is wrong and returns the exit code; -1 when help was shown.
 */
int options_read(struct options *options, int argc, char **argv);

#endif
