/*
 * command.c: finds the command of a request, and the core that runs it.
 */
#include "command.h"

#include <ctype.h>
#include <stdio.h>
#include <strings.h>

const char out_of_memory[] =
    "-OOM no block is free in the pool of this key's core; take items out, or start with more "
    "--memory\r\n";
const char stopping[] = "-SHUTDOWN the server stops and accepts nothing new\r\n";
const char other_core[] =
    "-CROSSSLOT the keys are of different cores; begin them with the same {word}, or start with "
    "--cores 1\r\n";

void count(_Atomic uint64_t *counter, uint64_t value)
{
    atomic_store_explicit(counter, value, memory_order_relaxed);
}

int refuse(struct shard *shard, struct session *session, const char *line)
{
    count(&shard->refused, shard->refused + 1);
    reply(session, line);
    return DONE;
}

void shard_publish(struct shard *shard)
{
    count(&shard->items, shard->queues.items);
    count(&shard->keys, shard->queues.keys);
    count(&shard->open_jobs, shard->queues.open_jobs);
}

bool is_word(struct word word, const char *name)
{
    return word.bytes == strlen(name) && strncasecmp(word.start, name, word.bytes) == 0;
}

/* --- the table --- */

/* The core that begins with a request: any, the one of the key that is its second word, or the one
 * that has the socket. */
enum place_of_run { ANYWHERE, AT_KEY, AT_HOME };

struct command {
    const char *name;
    int (*run)(struct shard *, struct session *);
    size_t least, most; /* words */
    enum place_of_run where;
};

static int run_command(struct shard *shard, struct session *session);

static const struct command commands[] = {
    {"lpush", run_lpush, 3, REQUEST_WORDS_MAX, AT_KEY},
    {"rpush", run_rpush, 3, REQUEST_WORDS_MAX, AT_KEY},
    {"rpop", run_rpop, 2, 3, AT_KEY},
    {"lpop", run_lpop, 2, 3, AT_KEY},
    {"brpop", run_brpop, 3, REQUEST_WORDS_MAX, AT_KEY},
    {"blpop", run_blpop, 3, REQUEST_WORDS_MAX, AT_KEY},
    {"lmove", run_lmove, 5, 5, AT_KEY},
    {"blmove", run_lmove, 6, 6, AT_KEY},
    {"llen", run_llen, 2, 2, AT_KEY},
    {"lrange", run_lrange, 4, 4, AT_KEY},
    {"del", run_del, 2, REQUEST_WORDS_MAX, AT_KEY},
    {"exists", run_exists, 2, REQUEST_WORDS_MAX, AT_KEY},
    {"type", run_type, 2, 2, AT_KEY},
    {"submit", run_submit, 3, 3, AT_KEY},
    {"result", run_result, 2, 3, AT_KEY},
    {"ping", run_ping, 1, 2, ANYWHERE},
    {"echo", run_echo, 2, 2, ANYWHERE},
    {"info", run_info, 1, REQUEST_WORDS_MAX, ANYWHERE},
    {"config", run_config, 2, REQUEST_WORDS_MAX, ANYWHERE},
    {"command", run_command, 1, REQUEST_WORDS_MAX, ANYWHERE},
    {"client", run_client, 2, REQUEST_WORDS_MAX, AT_HOME},
    {"select", run_select, 2, 2, ANYWHERE},
    {"hello", run_hello, 1, REQUEST_WORDS_MAX, AT_HOME},
    {"auth", run_auth, 2, 3, ANYWHERE},
    {"reset", run_reset, 1, 1, AT_HOME},
    {"quit", run_quit, 1, REQUEST_WORDS_MAX, ANYWHERE},
    {"shutdown", run_shutdown, 1, 1, ANYWHERE},
    {"post", run_http, 1, REQUEST_WORDS_MAX, ANYWHERE},
    {"host:", run_http, 1, REQUEST_WORDS_MAX, ANYWHERE},
};

enum { COMMAND_COUNT = sizeof commands / sizeof commands[0], NOT_COMMANDS = 2 };

/* Clients ask for the list of commands to complete words; they do without it. */
static int run_command(struct shard *shard, struct session *session)
{
    const struct request *request = &shard->request;
    if (request->count > 1 && is_word(request->words[1], "count"))
        reply_header(session, ':', COMMAND_COUNT - NOT_COMMANDS);
    else if (request->count > 1 && is_word(request->words[1], "docs"))
        reply_map(session, 0);
    else
        reply(session, "*0\r\n");
    return DONE;
}

static const struct command *command_of(struct word name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (is_word(name, commands[i].name))
            return &commands[i];
    return NULL;
}

static struct word tag_of(struct word key)
{
    const char *open = memchr(key.start, '{', key.bytes);
    if (open == NULL)
        return key;
    struct word tag = {open + 1, key.bytes - (size_t)(open + 1 - key.start)};
    const char *close = memchr(tag.start, '}', tag.bytes);
    tag.bytes = close != NULL ? (size_t)(close - tag.start) : 0;
    return tag.bytes > 0 ? tag : key;
}

uint32_t shard_slot(const struct shard *shard, struct word key)
{
    struct word tag = tag_of(key);
    uint32_t slot;
    if (tag.start == key.start && job_slot(key, &slot))
        return slot;
    return (uint32_t)(queue_hash(shard->queues.seed, tag) >> (64 - SLOT_BITS));
}

uint32_t shard_owner(const struct shard *shard, struct word key)
{
    return (uint32_t)((uint64_t)shard_slot(shard, key) * shard->cores >> SLOT_BITS);
}

/* The words of a request of no command, as Redis shows them. */
static void complain_of_unknown(struct session *session, const struct request *request)
{
    char shown[SHOWN_BYTES_MAX], words[SHOWN_BYTES_MAX * 2] = "";
    size_t length = 0;
    for (size_t i = 1; i < request->count && length < SHOWN_BYTES_MAX - 1; i++) {
        struct word word = request->words[i];
        size_t left = SHOWN_BYTES_MAX - 1 - length;
        word.bytes = word.bytes < left ? word.bytes : left;
        show(word, shown);
        length += (size_t)snprintf(words + length, sizeof words - length, "'%s' ", shown);
    }
    show(request->words[0], shown);
    complain(session, "-ERR unknown command '%s', with args beginning with: %s", shown, words);
}

/* Whether a request is no command's; the reply says so. */
static bool is_refused(struct session *session, const struct request *request,
                       const struct command *command)
{
    if (command == NULL)
        complain_of_unknown(session, request);
    else if (request->count < command->least || request->count > command->most)
        complain(session, "-ERR wrong number of arguments for '%s' command", command->name);
    else if (command->where == AT_KEY && request->words[1].bytes > QUEUE_KEY_MAX)
        complain(session, "-ERR a key has at most %d bytes", QUEUE_KEY_MAX);
    else
        return false;
    return true;
}

static int run_one(struct shard *shard, struct session *session)
{
    const struct request *request = &shard->request;
    if (request->count == 0)
        return DONE;
    if (!has_room(session, REPLY_SMALL))
        return SESSION_FLUSH;
    const struct command *command = command_of(request->words[0]);
    if (is_refused(session, request, command))
        return DONE;
    if (command->where != ANYWHERE && session->step == 0) {
        bool is_at_key = command->where == AT_KEY;
        session->owner = is_at_key ? shard_owner(shard, request->words[1]) : session->home;
        if (session->owner != shard->core)
            return SESSION_AWAY;
    }
    return command->run(shard, session);
}

static enum session_result run_wrong(struct shard *shard, struct session *session)
{
    if (!has_room(session, REPLY_SMALL))
        return SESSION_FLUSH;
    const struct request *request = &shard->request;
    if (request->wrong_mark != '\0')
        complain(session, "-ERR Protocol error: %s, got '%c'", request->wrong,
                 isprint((unsigned char)request->wrong_mark) ? request->wrong_mark : '?');
    else
        complain(session, "-ERR Protocol error: %s", request->wrong);
    return SESSION_CLOSE;
}

static int run_next(struct shard *shard, struct session *session)
{
    const char *start = session->input + session->consumed;
    size_t bytes = session->input_bytes - session->consumed;
    switch (parse_request(start, bytes, shard->message_bytes, &shard->request)) {
    case PARSE_MORE: return SESSION_MORE;
    case PARSE_WRONG: return (int)run_wrong(shard, session);
    case PARSE_DONE: break;
    }
    int result = run_one(shard, session);
    if (result == DONE || result == SESSION_WAITS || result == SESSION_CLOSE) {
        session->consumed += shard->request.bytes;
        session->step = 0;
        session->found = 0;
        count(&shard->requests, shard->requests + 1);
    }
    return result;
}

enum session_result session_run(struct shard *shard, struct session *session)
{
    int result = DONE;
    while (result == DONE)
        result = run_next(shard, session);
    shard_publish(shard);
    return (enum session_result)result;
}
