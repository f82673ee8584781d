/*
 * mq_clients.c: requests with numbers in them, and what may be answered to each.
 */
#include "mq_clients.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ITEMS_MAX = 2 * CLIENTS * CLIENT_ASKS_MAX * 8, SHORT_BYTES = 16, LONG_BYTES = 500 };
enum { ITEMS_A_PUSH = 3, ASK_BYTES_MAX = 2048 };

enum ask { ECHO, PUSH, POP, WAIT, DELETE, COUNT, SUBMIT, ANSWER, QUIT, WRONG };

struct expected {
    enum ask ask;
    uint32_t keys; /* a set of them                         */
    uint32_t item; /* the first of a push, or echo's number */
    uint32_t items;
};

struct item {
    uint8_t key, client;
    uint32_t connection; /* that pushed it */
    bool is_accepted, is_refused, is_taken, was_deleted;
};

struct client clients[CLIENTS];

/* Beside what the driver sees of each client. */
static struct hearing {
    struct expected expected[CLIENT_ASKS_MAX];
    char heard[CLIENT_STREAM_BYTES];
    size_t heard_bytes;
    uint32_t connection;
    uint32_t last_of[CLIENTS][CLIENT_KEYS]; /* the last item it took, by who pushed it, and key */
    char job[64];                           /* the last it submitted                            */
    bool is_over;                           /* nothing may follow                               */
} hearings[CLIENTS];

static struct item items[ITEMS_MAX];
static uint32_t item_count, connections;
static const uint8_t *cores_of_keys;
static uint32_t deleting[CLIENT_KEYS]; /* DEL that were asked and not answered */
static uint32_t lossy;                 /* keys whose items may have gone to a client that was cut */

static const char *const keys[CLIENT_KEYS] = {"a", "b", "c", "d", "e", "f", "{t}1", "{t}2"};

void client_fail(const char *sentence)
{
    fprintf(stderr, "mq_forward: %s\n", sentence);
    abort();
}

const char *client_key(unsigned key)
{
    return keys[key % CLIENT_KEYS];
}

void clients_start(const uint8_t *key_cores)
{
    memset(clients, 0, sizeof clients);
    memset(hearings, 0, sizeof hearings);
    item_count = 1; /* 0: none */
    connections = 0;
    cores_of_keys = key_cores;
    memset(deleting, 0, sizeof deleting);
    lossy = 0;
}

void client_connect(unsigned number)
{
    memset(&clients[number], 0, sizeof clients[number]);
    memset(&hearings[number], 0, sizeof hearings[number]);
    hearings[number].connection = ++connections;
}

/* --- asking --- */

__attribute__((format(printf, 2, 3))) static void say(struct client *client, const char *format,
                                                      ...)
{
    va_list values;
    size_t room = sizeof client->asks - client->ask_bytes;
    va_start(values, format);
    int bytes = vsnprintf(client->asks + client->ask_bytes, room, format, values);
    va_end(values);
    if (bytes < 0 || (size_t)bytes >= room)
        client_fail("the clients' stream is too short");
    client->ask_bytes += (size_t)bytes;
}

/* A new item's text: its number, and how much more there is of it. */
static void say_item(struct client *client, unsigned number, unsigned key, size_t bytes)
{
    items[item_count] = (struct item){.key = (uint8_t)key,
                                      .client = (uint8_t)number,
                                      .connection = hearings[number].connection,
                                      .was_deleted = deleting[key] > 0};
    say(client, "$%zu\r\n#%08u%0*d\r\n", bytes, (unsigned)item_count, (int)bytes - 9, 0);
    item_count++;
}

static void say_key(struct client *client, unsigned key)
{
    say(client, "$%zu\r\n%s\r\n", strlen(keys[key]), keys[key]);
}

static void ask_push(struct client *client, unsigned number, unsigned key, unsigned count,
                     bool is_long)
{
    say(client, "*%u\r\n$5\r\nLPUSH\r\n", count + 2);
    say_key(client, key);
    for (unsigned i = 0; i < count; i++)
        say_item(client, number, key, is_long ? LONG_BYTES : SHORT_BYTES);
}

static void ask_of_two(struct client *client, const char *name, unsigned one, unsigned other)
{
    say(client, "*%d\r\n$%zu\r\n%s\r\n", name[0] == 'B' ? 4 : 3, strlen(name), name);
    say_key(client, one);
    say_key(client, other);
    if (name[0] == 'B')
        say(client, "$1\r\n%d\r\n", (int)(one ^ other) & 1);
}

/* From when it is asked until it is answered it may take any item of its keys. */
static void note_delete(uint32_t of_keys)
{
    for (uint32_t item = 1; item < item_count; item++)
        items[item].was_deleted |= (of_keys >> items[item].key & 1) != 0;
    for (unsigned key = 0; key < CLIENT_KEYS; key++)
        deleting[key] += of_keys >> key & 1;
}

void client_ask(unsigned number, uint8_t what, uint8_t more)
{
    struct client *client = &clients[number];
    struct hearing *hearing = &hearings[number];
    unsigned key = more % CLIENT_KEYS, other = more / CLIENT_KEYS % CLIENT_KEYS;
    if (client->has_hung_up || client->is_cut || client->asked == CLIENT_ASKS_MAX ||
        item_count + ITEMS_A_PUSH >= ITEMS_MAX ||
        client->ask_bytes + ASK_BYTES_MAX > sizeof client->asks)
        return;
    struct expected *expected = &hearing->expected[client->asked++];
    *expected = (struct expected){.keys = 1u << key, .item = item_count};
    switch (what % 16) {
    case 0:
        expected->ask = ECHO;
        expected->item = (uint32_t)client->asked;
        say(client, "ECHO echo-%u\r\n", (unsigned)client->asked);
        break;
    default:
        expected->ask = PUSH;
        expected->items = 1 + more / CLIENT_KEYS % ITEMS_A_PUSH;
        ask_push(client, number, key, expected->items, what & 16);
        break;
    case 5:
    case 6:
    case 7:
        expected->ask = POP;
        say(client, "RPOP %s\r\n", keys[key]);
        break;
    case 8:
    case 9:
    case 10:
        expected->ask = WAIT;
        expected->keys |= 1u << other;
        ask_of_two(client, "BRPOP", key, other);
        break;
    case 11:
        expected->ask = DELETE;
        expected->keys |= 1u << other;
        ask_of_two(client, "DEL", key, other);
        note_delete(expected->keys);
        break;
    case 12:
        expected->ask = COUNT;
        say(client, "LLEN %s\r\n", keys[key]);
        break;
    case 13:
        expected->ask = SUBMIT;
        expected->items = 1;
        say(client, "*3\r\n$6\r\nSUBMIT\r\n");
        say_key(client, key);
        say_item(client, number, key, SHORT_BYTES);
        break;
    case 14:
        expected->ask = ANSWER;
        say(client, "RESULT %s done\r\n", hearing->job[0] != '\0' ? hearing->job : "job:0");
        break;
    case 15:
        expected->ask = (more & 1) != 0 ? QUIT : WRONG;
        say(client, "%s\r\n", (more & 1) != 0 ? "QUIT" : "*x");
        client->has_hung_up |= true; /* it asks no more: nothing may be answered */
        break;
    }
}

/* --- what it hears --- */

/* A reply: its mark, its number, and up to two texts. */
struct said {
    char mark;
    long number;
    const char *text[2];
    size_t bytes[2];
};

static const char *read_line(const char *at, const char *end)
{
    const char *line_end = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
    return line_end != NULL ? line_end + 1 : NULL;
}

/* Where the bulk string at `at` ends; NULL: its end is not there. */
static const char *read_bulk(const char *at, const char *end, struct said *said, unsigned index)
{
    const char *text = read_line(at, end);
    if (text == NULL)
        return NULL;
    if (*at != '$')
        client_fail("what should be an item is none");
    long bytes = strtol(at + 1, NULL, 10);
    said->text[index] = bytes < 0 ? NULL : text;
    said->bytes[index] = bytes < 0 ? 0 : (size_t)bytes;
    if (bytes < 0)
        return text;
    if (end - text < bytes + 2)
        return NULL;
    if (memcmp(text + bytes, "\r\n", 2) != 0)
        client_fail("an item has not the length that it says");
    return text + bytes + 2;
}

static const char *read_reply(const char *at, const char *end, struct said *said)
{
    const char *next = read_line(at, end);
    *said = (struct said){.mark = *at};
    if (next == NULL)
        return NULL;
    said->text[0] = at + 1;
    said->bytes[0] = (size_t)(next - at - 1);
    switch (*at) {
    case '+':
    case '-': return next;
    case ':': said->number = strtol(at + 1, NULL, 10); return next;
    case '$': return read_bulk(at, end, said, 0);
    case '*': break;
    default: client_fail("what comes is no reply");
    }
    said->number = strtol(at + 1, NULL, 10);
    for (unsigned i = 0; said->number == 2 && i < 2 && next != NULL; i++)
        next = read_bulk(next, end, said, i);
    return next;
}

static bool begins(const struct said *said, const char *with)
{
    return said->bytes[0] >= strlen(with) && memcmp(said->text[0], with, strlen(with)) == 0;
}

static bool is_refusal(const struct said *said)
{
    return said->mark == '-' && (begins(said, "OOM") || begins(said, "SHUTDOWN"));
}

/* The number in an item's text, which may have a job's id before it. */
static uint32_t number_of(const char *text, size_t bytes)
{
    const char *mark = memchr(text, '#', bytes);
    uint32_t number = 0;
    if (mark == NULL || bytes - (size_t)(mark - text) < SHORT_BYTES)
        client_fail("an item is none of the clients'");
    for (unsigned i = 1; i <= 8; i++)
        number = number * 10 + (uint32_t)(mark[i] - '0');
    if (number == 0 || number >= item_count)
        client_fail("an item was never pushed");
    return number;
}

static struct item *take(const char *text, size_t bytes, uint32_t of_keys)
{
    struct item *item = &items[number_of(text, bytes)];
    if (item->is_taken)
        client_fail("an item was taken twice");
    if (item->is_refused)
        client_fail("an item was refused, and is there all the same");
    if ((of_keys >> item->key & 1) == 0)
        client_fail("an item is of another queue");
    item->is_taken = true;
    return item;
}

/* Of one connection's items in one queue the older ones come first. */
static void hear_item(struct hearing *hearing, const char *text, size_t bytes, uint32_t of_keys)
{
    struct item *item = take(text, bytes, of_keys);
    uint32_t number = (uint32_t)(item - items);
    uint32_t *last = &hearing->last_of[item->client][item->key];
    if (*last > number && items[*last].connection == item->connection)
        client_fail("items come out of order");
    *last = number;
}

static void hear_waited(struct hearing *hearing, const struct expected *expected,
                        const struct said *said)
{
    uint32_t cores = 0;
    for (unsigned key = 0; key < CLIENT_KEYS; key++)
        if (expected->keys >> key & 1)
            cores |= 1u << cores_of_keys[key];
    bool is_apart = (cores & (cores - 1)) != 0;
    if (is_apart != (said->mark == '-' && begins(said, "CROSSSLOT")))
        client_fail("keys of one core are not, or are");
    if (said->mark == '-' || (said->mark == '*' && said->number == -1))
        return;
    if (said->mark != '*' || said->text[0] == NULL || said->text[1] == NULL)
        client_fail("who waited is told neither an item nor that time is over");
    for (unsigned key = 0; key < CLIENT_KEYS; key++)
        if (strlen(keys[key]) == said->bytes[0] && begins(said, keys[key])) {
            hear_item(hearing, said->text[1], said->bytes[1], expected->keys & 1u << key);
            return;
        }
    client_fail("who waited is told a key that it never named");
}

static void hear_pushed(const struct expected *expected, const struct said *said)
{
    bool is_accepted = expected->ask == SUBMIT
                           ? said->mark == '$' && begins(said, "job:")
                           : said->mark == ':' && said->number >= (long)expected->items;
    if (!is_accepted && !is_refusal(said))
        client_fail("a push is neither accepted nor refused");
    for (uint32_t i = 0; i < expected->items; i++) {
        struct item *item = &items[expected->item + i];
        item->is_accepted = is_accepted;
        item->is_refused = !is_accepted;
        if (!is_accepted && item->is_taken)
            client_fail("an item was taken whose push is refused");
    }
}

static void hear_reply(struct hearing *hearing, const struct expected *expected,
                       const struct said *said)
{
    char echo[32];
    switch (expected->ask) {
    case ECHO:
        snprintf(echo, sizeof echo, "echo-%u", (unsigned)expected->item);
        if (said->mark != '$' || said->bytes[0] != strlen(echo) || !begins(said, echo))
            client_fail("an echo is another's, or not this one's turn");
        break;
    case PUSH: hear_pushed(expected, said); break;
    case SUBMIT:
        hear_pushed(expected, said);
        if (said->mark == '$' && said->bytes[0] < sizeof hearing->job) {
            memcpy(hearing->job, said->text[0], said->bytes[0]);
            hearing->job[said->bytes[0]] = '\0';
        }
        break;
    case POP:
        if (said->mark != '$')
            client_fail("a pop is answered by no item and no nil");
        if (said->text[0] != NULL)
            hear_item(hearing, said->text[0], said->bytes[0], expected->keys);
        break;
    case WAIT:
        if (!is_refusal(said))
            hear_waited(hearing, expected, said);
        break;
    case DELETE:
        if (said->mark != ':' || said->number < 0 || said->number > 2)
            client_fail("of two keys another number is deleted");
        for (unsigned key = 0; key < CLIENT_KEYS; key++)
            deleting[key] -= expected->keys >> key & 1;
        break;
    case COUNT:
        if (said->mark != ':' || said->number < 0 || said->number >= (long)item_count)
            client_fail("a queue is longer than all that was put into it");
        break;
    case ANSWER:
        if (!is_refusal(said) && !begins(said, "OK") && !begins(said, "NOJOB"))
            client_fail("a result is neither taken nor unknown");
        break;
    case QUIT:
    case WRONG:
        if (!begins(said, expected->ask == QUIT ? "OK" : "ERR"))
            client_fail("the last request has another answer");
        hearing->is_over = true;
        break;
    }
}

void client_hear(unsigned number, const char *bytes, size_t count)
{
    struct client *client = &clients[number];
    struct hearing *hearing = &hearings[number];
    if (hearing->heard_bytes + count > sizeof hearing->heard)
        client_fail("more is said than was asked for");
    memcpy(hearing->heard + hearing->heard_bytes, bytes, count);
    hearing->heard_bytes += count;
    const char *at = hearing->heard, *end = at + hearing->heard_bytes, *next;
    struct said said;
    while (at < end && (next = read_reply(at, end, &said)) != NULL) {
        if (hearing->is_over || client->answered == client->asked)
            client_fail("a reply answers nothing");
        hear_reply(hearing, &hearing->expected[client->answered++], &said);
        at = next;
    }
    hearing->heard_bytes = (size_t)(end - at);
    memmove(hearing->heard, at, hearing->heard_bytes);
}

/* --- when all is over --- */

void clients_left(const char *key, size_t key_bytes, const char *item, size_t bytes)
{
    for (unsigned i = 0; i < CLIENT_KEYS; i++)
        if (strlen(keys[i]) == key_bytes && memcmp(key, keys[i], key_bytes) == 0)
            take(item, bytes, 1u << i);
}

bool client_is_content(unsigned number)
{
    return hearings[number].is_over || clients[number].answered == clients[number].asked;
}

uint32_t client_awaits(unsigned number)
{
    const struct expected *next = &hearings[number].expected[clients[number].answered];
    return !client_is_content(number) && next->ask == WAIT ? next->keys : 0;
}

void client_cut(unsigned number)
{
    struct client *client = &clients[number];
    client->is_cut = client->has_hung_up = true;
    for (size_t i = client->answered; i < client->asked; i++) {
        const struct expected *expected = &hearings[number].expected[i];
        if (expected->ask == POP || expected->ask == WAIT)
            lossy |= expected->keys;
    }
}

void clients_check_items(void)
{
    for (uint32_t i = 1; i < item_count; i++)
        if (items[i].is_accepted && !items[i].is_taken && !items[i].was_deleted &&
            (lossy >> items[i].key & 1) == 0)
            client_fail("an item that was accepted is lost");
}
