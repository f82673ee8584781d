/*
 * command_client.c: what clients say of themselves, and ask of the server.
 */
#include "command.h"

#include <stdio.h>

enum { INFO_BYTES_MAX = 16 << 10 };

int run_echo(struct shard *shard, struct session *session)
{
    struct word word = shard->request.words[1];
    if (!has_room(session, word.bytes + REPLY_EXTRA))
        return SESSION_FLUSH;
    reply_word(session, word);
    return DONE;
}

int run_ping(struct shard *shard, struct session *session)
{
    if (shard->request.count == 2)
        return run_echo(shard, session);
    reply(session, "+PONG\r\n");
    return DONE;
}

int run_info(struct shard *shard, struct session *session)
{
    char text[INFO_BYTES_MAX];
    shard_publish(shard);
    size_t bytes = shard->host.info(shard->host.context, text, sizeof text);
    if (!has_room(session, bytes + REPLY_EXTRA))
        return SESSION_FLUSH;
    reply_verbatim(session, (struct word){text, bytes});
    return DONE;
}

int run_config(struct shard *shard, struct session *session)
{
    const struct request *request = &shard->request;
    bool has_save = false, has_log = false;
    bool is_get = is_word(request->words[1], "get");
    if (!is_get || request->count < 3) {
        reply(session, is_get ? "-ERR wrong number of arguments for 'config|get' command\r\n"
                              : "-ERR only CONFIG GET is known; options are those of the command "
                                "line\r\n");
        return DONE;
    }
    for (size_t i = 2; i < request->count; i++) {
        has_save |= is_word(request->words[i], "save");
        has_log |= is_word(request->words[i], "appendonly");
    }
    reply_map(session, (uint64_t)has_save + has_log);
    if (has_save)
        reply(session, "$4\r\nsave\r\n$0\r\n\r\n");
    if (has_log)
        reply(session, "$10\r\nappendonly\r\n$2\r\nno\r\n");
    return DONE;
}

/* --- CLIENT --- */

/* Whether a word can be in a line of CLIENT LIST, as Redis has it. */
static bool is_printable(struct word word)
{
    for (size_t i = 0; i < word.bytes; i++)
        if (word.start[i] < '!' || word.start[i] > '~')
            return false;
    return true;
}

/* NULL, or why a client cannot be called so. */
static const char *set_name(struct session *session, enum client_name which, struct word word)
{
    if (!is_printable(word))
        return which == CLIENT_NAME
                   ? "-ERR Client names cannot contain spaces, newlines or special characters.\r\n"
                   : "-ERR lib-name and lib-ver cannot contain spaces, newlines or special "
                     "characters.\r\n";
    if (word.bytes >= CLIENT_NAME_BYTES)
        return "-ERR a client's name has at most 63 bytes\r\n";
    memcpy(session->names[which], word.start, word.bytes);
    session->names[which][word.bytes] = '\0';
    return NULL;
}
_Static_assert(CLIENT_NAME_BYTES == 64, "the sentence says so");

static int reply_named(struct session *session, const char *wrong)
{
    reply(session, wrong == NULL ? "+OK\r\n" : wrong);
    return DONE;
}

static int client_setname(struct shard *shard, struct session *session)
{
    return reply_named(session, set_name(session, CLIENT_NAME, shard->request.words[2]));
}

static int client_getname(struct shard *shard, struct session *session)
{
    (void)shard;
    if (session->names[CLIENT_NAME][0] == '\0')
        reply_null(session);
    else
        reply_text(session, session->names[CLIENT_NAME]);
    return DONE;
}

static int client_setinfo(struct shard *shard, struct session *session)
{
    const struct word *words = shard->request.words;
    char shown[SHOWN_BYTES_MAX];
    if (is_word(words[2], "lib-name"))
        return reply_named(session, set_name(session, CLIENT_LIB_NAME, words[3]));
    if (is_word(words[2], "lib-ver"))
        return reply_named(session, set_name(session, CLIENT_LIB_VERSION, words[3]));
    show(words[2], shown);
    complain(session, "-ERR Unrecognized option '%s'", shown);
    return DONE;
}

static int client_id(struct shard *shard, struct session *session)
{
    (void)shard;
    reply_header(session, ':', session->id);
    return DONE;
}

/* Whether CLIENT LIST names a client: all of them, or those behind ID. */
static bool is_wanted(const struct request *request, uint64_t id)
{
    int64_t number;
    for (size_t i = 3; i < request->count; i++)
        if (parse_integer(request->words[i], &number) && (uint64_t)number == id)
            return true;
    return request->count == 2;
}

/* Adds the lines about this core's clients behind what `found` bytes of the reply hold already,
 * which is sent by nobody meanwhile. False: there is no room. */
static bool list_here(struct shard *shard, struct session *session)
{
    struct session *client = NULL;
    char line[REPLY_SMALL];
    while ((client = shard->host.next_client(shard, client)) != NULL) {
        if (!is_wanted(&shard->request, client->id))
            continue;
        size_t bytes = shard->host.describe(shard, client, line);
        if (REPLY_EXTRA + session->found + bytes > session->reply_capacity)
            return false;
        memcpy(session->reply + REPLY_EXTRA / 2 + session->found, line, bytes);
        session->found += bytes;
    }
    return true;
}

/* NULL, or what is wrong with a CLIENT LIST. */
static const char *check_list(const struct request *request)
{
    int64_t id;
    if (request->count == 2)
        return NULL;
    if (!is_word(request->words[2], "id") || request->count == 3)
        return "-ERR syntax error\r\n";
    for (size_t i = 3; i < request->count; i++)
        if (!parse_integer(request->words[i], &id) || id < 1)
            return "-ERR Invalid client ID\r\n";
    return NULL;
}

/* The session goes round all cores, from its home, and gathers lines. */
static int client_list(struct shard *shard, struct session *session)
{
    const char *wrong = check_list(&shard->request);
    if (session->reply_bytes > 0)
        return SESSION_FLUSH;
    for (; wrong == NULL && session->step < shard->cores; session->step++) {
        session->owner = (session->home + session->step) % shard->cores;
        if (session->owner != shard->core)
            return SESSION_AWAY;
        if (!list_here(shard, session))
            wrong = "-ERR the reply would be longer than --message allows; CLIENT LIST ID asks "
                    "for fewer\r\n";
    }
    if (wrong != NULL) {
        reply(session, wrong);
        return DONE;
    }
    size_t bytes = session->found;
    struct word text = {session->reply + REPLY_EXTRA / 2, bytes};
    reply_header(session, session->is_resp3 ? '=' : '$', bytes + (session->is_resp3 ? 4 : 0));
    reply(session, session->is_resp3 ? "txt:" : "");
    memmove(session->reply + session->reply_bytes, text.start, bytes);
    session->reply_bytes += bytes;
    reply(session, "\r\n");
    return DONE;
}

static int client_info(struct shard *shard, struct session *session)
{
    char line[REPLY_SMALL];
    size_t bytes = shard->host.describe(shard, session, line);
    if (!has_room(session, bytes + REPLY_EXTRA))
        return SESSION_FLUSH;
    reply_verbatim(session, (struct word){line, bytes});
    return DONE;
}

static const struct {
    const char *name;
    int (*run)(struct shard *, struct session *);
    size_t least, most; /* words */
} client_commands[] = {
    {"id", client_id, 2, 2},
    {"info", client_info, 2, 2},
    {"list", client_list, 2, REQUEST_WORDS_MAX},
    {"setname", client_setname, 3, 3},
    {"getname", client_getname, 2, 2},
    {"setinfo", client_setinfo, 4, 4},
};

int run_client(struct shard *shard, struct session *session)
{
    const struct request *request = &shard->request;
    char shown[SHOWN_BYTES_MAX];
    for (size_t i = 0; i < sizeof client_commands / sizeof client_commands[0]; i++) {
        if (!is_word(request->words[1], client_commands[i].name))
            continue;
        if (request->count >= client_commands[i].least && request->count <= client_commands[i].most)
            return client_commands[i].run(shard, session);
        complain(session, "-ERR wrong number of arguments for 'client|%s' command",
                 client_commands[i].name);
        return DONE;
    }
    show(request->words[1], shown);
    complain(session, "-ERR unknown subcommand '%s'. Try ID, INFO, LIST, SETNAME, GETNAME, SETINFO",
             shown);
    return DONE;
}

/* --- how they begin and end --- */

int run_select(struct shard *shard, struct session *session)
{
    int64_t number;
    if (!parse_integer(shard->request.words[1], &number))
        reply(session, "-ERR value is not an integer or out of range\r\n");
    else if (number > INT32_MAX || number < INT32_MIN)
        complain(session, "-ERR value is out of range, value must between %d and %d", INT32_MIN,
                 INT32_MAX);
    else
        reply(session, number == 0 ? "+OK\r\n" : "-ERR DB index is out of range\r\n");
    return DONE;
}

/* There is one user, without a password: any password is right. */
static const char *check_user(struct word name)
{
    return is_word(name, "default") ? NULL
                                    : "-WRONGPASS invalid username-password pair or user is "
                                      "disabled.\r\n";
}

/* NULL, or what is wrong with a HELLO. What it names is set. */
static const char *read_hello(const struct request *request, struct session *session,
                              char wrong[REPLY_SMALL])
{
    int64_t protocol;
    char shown[SHOWN_BYTES_MAX];
    struct word name = {NULL, 0};
    const char *trouble = NULL;
    if (request->count == 1)
        return NULL;
    if (!parse_integer(request->words[1], &protocol))
        return "-ERR Protocol version is not an integer or out of range\r\n";
    if (protocol != 2 && protocol != 3)
        return "-NOPROTO unsupported protocol version\r\n";
    for (size_t i = 2; i < request->count && trouble == NULL; i++) {
        size_t more = request->count - i - 1;
        const struct word *words = request->words + i;
        if (is_word(words[0], "auth") && more >= 2) {
            trouble = check_user(words[1]);
            i += 2;
        } else if (is_word(words[0], "setname") && more >= 1) {
            name = words[1];
            i++;
        } else {
            show(words[0], shown);
            snprintf(wrong, REPLY_SMALL, "-ERR Syntax error in HELLO option '%s'\r\n", shown);
            trouble = wrong;
        }
    }
    if (trouble == NULL && name.start != NULL)
        trouble = set_name(session, CLIENT_NAME, name);
    if (trouble == NULL)
        session->is_resp3 = protocol == 3;
    return trouble;
}

int run_hello(struct shard *shard, struct session *session)
{
    char line[REPLY_SMALL];
    const char *wrong = read_hello(&shard->request, session, line);
    if (wrong != NULL) {
        reply(session, wrong);
        return DONE;
    }
    reply_map(session, 7);
    reply_text(session, "server");
    reply_text(session, "calmq");
    reply_text(session, "version");
    reply_text(session, REDIS_VERSION);
    reply_text(session, "proto");
    reply_header(session, ':', session->is_resp3 ? 3 : 2);
    reply_text(session, "id");
    reply_header(session, ':', session->id);
    reply_text(session, "mode");
    reply_text(session, "standalone");
    reply_text(session, "role");
    reply_text(session, "master");
    reply_text(session, "modules");
    reply(session, "*0\r\n");
    return DONE;
}

int run_auth(struct shard *shard, struct session *session)
{
    const struct request *request = &shard->request;
    const char *wrong =
        request->count == 2
            ? "-ERR AUTH <password> called without any password configured for the default user. "
              "Are you sure your configuration is correct?\r\n"
            : check_user(request->words[1]);
    reply(session, wrong == NULL ? "+OK\r\n" : wrong);
    return DONE;
}

int run_reset(struct shard *shard, struct session *session)
{
    (void)shard;
    session->is_resp3 = false;
    session->names[CLIENT_NAME][0] = '\0';
    reply(session, "+RESET\r\n");
    return DONE;
}

int run_quit(struct shard *shard, struct session *session)
{
    (void)shard;
    reply(session, "+OK\r\n");
    return SESSION_CLOSE;
}

/* A browser that was made to send something here: nothing of it is to be run. */
int run_http(struct shard *shard, struct session *session)
{
    (void)shard;
    (void)session;
    return SESSION_CLOSE;
}

int run_shutdown(struct shard *shard, struct session *session)
{
    reply(session, "+OK\r\n");
    shard->host.stop(shard->host.context);
    return DONE;
}
