/*
 * options.c: reads the command line; each word that is wrong gets one sentence.
 */
#include "options.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PORT_DEFAULT = 7379,
    CORES_MAX = 64,
    CONNECTIONS_MAX = 100000,
    MESSAGE_MIN = 16 << 10,
    MESSAGE_MAX = 256 << 10,
    SECONDS_MAX = 1000000,
    KEEPALIVE_MIN = 2,
    KEEPALIVE_MAX = 10000,
};

static const char help[] =
    "calmq: a queue server that speaks the Redis protocol, on pools whose memory is set at start.\n"
    "\n"
    "  --port N           the TCP port; 0 takes a free one; 7379 where no --unix is given\n"
    "  --bind ADDRESS     the IPv4 address to listen on; 127.0.0.1\n"
    "  --unix PATH        listens on a Unix socket, too, or only\n"
    "  --cores N          workers, each on its own CPU; as many as the process may use\n"
    "  --memory BYTES     for queues, an equal share for each core; K, M, G are understood; 64M\n"
    "  --connections N    at most, of all cores; 1000\n"
    "  --message BYTES    of a request, at most; 16K, the least, to 256K\n"
    "  --idle SECONDS     closes a connection that asks nothing for so long; 0, never\n"
    "  --request SECONDS  a request must be whole by then; 30\n"
    "  --send SECONDS     closes a connection whose client takes none of its replies for so long;\n"
    "                     0, never: until it reads, it is not read\n"
    "  --keepalive SECONDS  closes a TCP connection whose machine answers nothing for about so\n"
    "                     long; 10\n"
    "  --redeliver SECONDS  a job that was taken and is not answered by then is queued again;\n"
    "                     1800\n"
    "  --keep FILE        a stop writes what is queued to FILE, the next start reads it; without,\n"
    "                     a stop waits until all was taken. FILE.lock, FILE.new are used beside\n"
    "  --loop KIND        io_uring or epoll; io_uring where the system has it\n"
    "\n"
    "Commands: LPUSH RPUSH LPOP RPOP BLPOP BRPOP LMOVE BLMOVE LLEN LRANGE DEL EXISTS TYPE SUBMIT\n"
    "RESULT PING ECHO INFO CLIENT HELLO SHUTDOWN QUIT; docs/mq.md.\n";

static int refuse(const char *name, const char *why)
{
    fprintf(stderr, "calmq: %s %s.\n", name, why);
    return 2;
}

/* A number with K, M or G behind it. */
static bool read_number(const char *text, uint64_t least, uint64_t most, bool has_units,
                        uint64_t *out)
{
    static const char units[] = "KMG";
    char *end;
    errno = 0;
    if (*text < '0' || *text > '9')
        return false;
    uint64_t number = strtoull(text, &end, 10);
    const char *unit = has_units && *end != '\0' ? strchr(units, *end) : NULL;
    unsigned shift = unit == NULL ? 0 : (unsigned)(unit - units + 1) * 10;
    if (errno != 0 || end[unit != NULL] != '\0' || number > UINT64_MAX >> shift)
        return false;
    *out = number << shift;
    return *out >= least && *out <= most;
}

/* An option with a number: where it goes and what it may be. */
struct number {
    const char *name;
    uint64_t least, most;
    bool has_units;
    uint64_t value;
};

enum {
    PORT,
    CORES,
    MEMORY,
    CONNECTIONS,
    MESSAGE,
    IDLE,
    REQUEST,
    SEND,
    KEEPALIVE,
    REDELIVER,
    NUMBERS
};

/* The index of a name in a table of names at equal distances, or `count`. */
static size_t number_called(const struct number *numbers, const char *name)
{
    size_t i = 0;
    while (i < NUMBERS && strcmp(numbers[i].name, name) != 0)
        i++;
    return i;
}

static const char **word_called(struct options *options, const char *name)
{
    if (strcmp(name, "--bind") == 0)
        return &options->bind;
    if (strcmp(name, "--unix") == 0)
        return &options->unix_path;
    if (strcmp(name, "--keep") == 0)
        return &options->keep_path;
    return strcmp(name, "--loop") == 0 ? &options->loop : NULL;
}

static int read_one(struct options *options, struct number *numbers, const char *name,
                    const char *value)
{
    char why[128];
    size_t i = number_called(numbers, name);
    const char **word = word_called(options, name);
    if (i == NUMBERS && word == NULL)
        return refuse(name, "is no option; --help lists them");
    if (value == NULL)
        return refuse(name, "needs a value");
    if (word != NULL) {
        *word = value;
        return 0;
    }
    if (read_number(value, numbers[i].least, numbers[i].most, numbers[i].has_units,
                    &numbers[i].value))
        return 0;
    snprintf(why, sizeof why, "takes a number from %llu to %llu",
             (unsigned long long)numbers[i].least, (unsigned long long)numbers[i].most);
    return refuse(name, why);
}

static void take(struct options *options, const struct number *numbers)
{
    options->port = (int)numbers[PORT].value;
    options->cores = (uint32_t)numbers[CORES].value;
    options->memory_bytes = numbers[MEMORY].value;
    options->connections = (uint32_t)numbers[CONNECTIONS].value;
    options->message_bytes = numbers[MESSAGE].value;
    options->idle_s = (uint32_t)numbers[IDLE].value;
    options->request_s = (uint32_t)numbers[REQUEST].value;
    options->send_s = (uint32_t)numbers[SEND].value;
    options->keepalive_s = (uint32_t)numbers[KEEPALIVE].value;
    options->redeliver_s = (uint32_t)numbers[REDELIVER].value;
}

int options_read(struct options *options, int argc, char **argv)
{
    struct number numbers[NUMBERS] = {
        [PORT] = {"--port", 0, UINT16_MAX, false, UINT64_MAX},
        [CORES] = {"--cores", 1, CORES_MAX, false, 0},
        [MEMORY] = {"--memory", 1 << 16, (uint64_t)1 << 40, true, 64 << 20},
        [CONNECTIONS] = {"--connections", 1, CONNECTIONS_MAX, false, 1000},
        [MESSAGE] = {"--message", MESSAGE_MIN, MESSAGE_MAX, true, MESSAGE_MIN},
        [IDLE] = {"--idle", 0, SECONDS_MAX, false, 0},
        [REQUEST] = {"--request", 1, SECONDS_MAX, false, 30},
        [SEND] = {"--send", 0, SECONDS_MAX, false, 0},
        [KEEPALIVE] = {"--keepalive", KEEPALIVE_MIN, KEEPALIVE_MAX, false, 10},
        [REDELIVER] = {"--redeliver", 1, SECONDS_MAX, false, 1800},
    };
    *options = (struct options){.bind = "127.0.0.1"};
    for (int i = 1; i < argc; i += 2) {
        if (strcmp(argv[i], "--help") == 0) {
            fputs(help, stdout);
            return -1;
        }
        int code = read_one(options, numbers, argv[i], argv[i + 1]);
        if (code != 0)
            return code;
    }
    if (options->loop != NULL && strcmp(options->loop, "io_uring") != 0 &&
        strcmp(options->loop, "epoll") != 0)
        return refuse("--loop", "takes io_uring or epoll");
    bool has_port = numbers[PORT].value != UINT64_MAX;
    if (!has_port)
        numbers[PORT].value = PORT_DEFAULT;
    take(options, numbers);
    if (!has_port && options->unix_path != NULL)
        options->port = -1;
    return 0;
}
