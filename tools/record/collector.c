/*
 * collector.c: starts a program with the recorder in front of its allocator, reads what the
 * recorder writes, and ends as the program ends. `calm record` becomes this program.
 *
 *   calm_record [--children] [--hash-names] [--quiet] [--json FILE] FILE PRELOAD PATH PROGRAM
 * ARGS...
 *
 * The program's own process is recorded in FILE; what it becomes by exec, and with --children what
 * it starts, in FILE.2, FILE.3 and so on. Signals are left to the program, as `calm run` leaves
 * them. When nothing can be written any more, one sentence says so and the program goes on.
 */
#define _GNU_SOURCE
#include "session.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <fcntl.h>

enum {
    SLEEP_US_MIN = 50,
    SLEEP_US_MAX = 2000,
    SLEEP_IDLE_US = 5000,
    IDLE_ROUNDS = 100,
    FLUSH_MS = 500,
    REAP_MS = 20,
    SESSIONS_AT_ONCE = 256,
};

struct request {
    bool has_children, is_hashed, is_quiet;
    const char *json, *file, *preload, *path;
    char **program;
};

struct summary {
    uint64_t calls, bytes, unknown, disorder, lost;
};

static struct request wanted;
static struct session *sessions;
static unsigned files_made;
static volatile sig_atomic_t child;
static int listener;
static FILE *json;

static void say_trouble(struct session *session)
{
    if (session->has_said_trouble || session->encoder->trouble == 0)
        return;
    session->has_said_trouble = true;
    fprintf(stderr,
            "calm: the recording ends here: '%s' cannot be written: %s; the program goes on.\n",
            session->path, strerror(session->encoder->trouble));
}

static void give_up(struct session *session)
{
    say_trouble(session);
    atomic_store(&session->shared->is_off, 1);
    syscall(SYS_futex, &session->shared->rounds, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static void amount(char *out, size_t size, uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
    double value = (double)bytes;
    unsigned unit = 0;
    for (; value >= 1024 && unit < 3; unit++)
        value /= 1024;
    snprintf(out, size, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
}

/* "1,234 calls" */
static void counted(char *out, size_t size, uint64_t number, const char *noun)
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%" PRIu64, number);
    size_t used = 0;
    for (int i = 0; i < length && used + 2 < size; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            out[used++] = ',';
        out[used++] = digits[i];
    }
    snprintf(out + used, size - used, " %s%s", noun, number == 1 ? "" : "s");
}

static void report(const struct session *session, const struct record_end *end)
{
    char bytes[32], made[64], threads[64], other[64];
    uint64_t calls = session->encoder->events;
    double each = calls == 0 ? 0 : (double)session->encoder->file_bytes / (double)calls;
    amount(bytes, sizeof bytes, session->encoder->file_bytes);
    if (!wanted.is_quiet) {
        counted(made, sizeof made, calls, "call");
        counted(threads, sizeof threads, session->thread_count, "thread");
        fprintf(stderr, "calm: recorded %s in '%s': %s of %s, %s, %.1f bytes a call\n",
                session->program, session->path, made, threads, bytes, each);
        if (end->unknown > 0) {
            counted(other, sizeof other, end->unknown, "free");
            fprintf(stderr, "  not in the file: %s of blocks whose request was not seen\n", other);
        }
        if (end->disorder > 0) {
            counted(other, sizeof other, end->disorder, "block");
            fprintf(stderr,
                    "  not seen: the end of %s, taken to be where the address is next used\n",
                    other);
        }
        if (end->lost > 0) {
            counted(other, sizeof other, end->lost, "call");
            fprintf(stderr, "  lost: %s, in signal handlers or of threads beyond %d\n", other,
                    RINGS_MAX);
        }
    }
    if (json != NULL)
        fprintf(json,
                "{\"file\": \"%s\", \"pid\": %d, \"calls\": %" PRIu64 ", \"threads\": %" PRIu32
                ", \"file_bytes\": %" PRIu64 ", \"unknown\": %" PRIu64 ", \"disorder\": %" PRIu64
                ", \"lost\": %" PRIu64 ", \"wall_ms\": %" PRIu64 ", \"is_whole\": %s}\n",
                session->path, session->process, calls, session->thread_count,
                session->encoder->file_bytes, end->unknown, end->disorder, end->lost, end->wall_ms,
                end->is_whole ? "true" : "false");
}

static void close_session(struct session *session, bool is_whole)
{
    struct shared *shared = session->shared;
    if (session->encoder->trouble == 0)
        session_drain(session, true);
    for (unsigned i = 0; i < RINGS_MAX; i++)
        session->lost += atomic_load(&shared->rings[i].lost);
    session->lost += atomic_load(&shared->unseen);
    struct record_end end = {session->encoder->events,
                             session->unknown,
                             session->disorder,
                             session->lost,
                             milliseconds() - session->begun_ms,
                             is_whole && session->encoder->trouble == 0};
    encode_close(session->encoder, &end);
    give_up(session);
    report(session, &end);
    munmap(shared, sizeof *shared);
    close(session->process_fd);
    close(session->pagemap_fd);
    blocks_close(&session->live);
    free(session->large);
    sites_close(&session->sites);
    areas_close(&session->areas);
    table_unmap(session->encoder->codec.free_slots,
                session->encoder->codec.free_capacity * sizeof(uint32_t));
    free(session->encoder);
    free(session);
}

/* A process that becomes another program by exec has a new session. */
static void close_session_of(int process)
{
    for (struct session **at = &sessions; *at != NULL; at = &(*at)->next) {
        struct session *session = *at;
        if (session->process == process) {
            *at = session->next;
            close_session(session, true);
            return;
        }
    }
}

static void name_program(struct session *session, uint64_t salt)
{
    char path[64], name[64] = "?";
    snprintf(path, sizeof path, "/proc/%d/comm", session->process);
    FILE *file = fopen(path, "re");
    if (file != NULL) {
        if (fgets(name, sizeof name, file) == NULL)
            strcpy(name, "?");
        fclose(file);
    }
    name[strcspn(name, "\n")] = 0;
    for (char *at = name; *at != 0; at++)
        if (*at < ' ' || *at == '"' || *at == '\\' || *at == 0x7f)
            *at = '?';
    if (salt != 0)
        snprintf(session->program, sizeof session->program, "%016" PRIx64, salted(name, 0, salt));
    else
        snprintf(session->program, sizeof session->program, "%.39s", name);
}

static uint64_t new_salt(void)
{
    uint64_t salt = 0;
    while (wanted.is_hashed && salt == 0)
        if (getrandom(&salt, sizeof salt, 0) != sizeof salt)
            salt = 0;
    return salt;
}

static void fill_file_name(struct session *session)
{
    if (++files_made == 1)
        snprintf(session->path, sizeof session->path, "%s", wanted.file);
    else
        snprintf(session->path, sizeof session->path, "%.4000s.%u", wanted.file, files_made);
}

static bool open_session(struct session *session, int memory, int process)
{
    struct stat facts;
    char path[64];
    uint64_t salt = new_salt();
    if (fstat(memory, &facts) != 0 || facts.st_size != sizeof *session->shared)
        return false;
    session->shared = mmap(NULL, sizeof *session->shared, PROT_READ | PROT_WRITE, MAP_SHARED,
                           memory, 0);
    if (session->shared == MAP_FAILED || session->shared->magic != SHARED_MAGIC)
        return false;
    session->shared->collector = getpid();
    session->process = process;
    session->process_fd = (int)syscall(SYS_pidfd_open, process, 0);
    snprintf(path, sizeof path, "/proc/%d/pagemap", process);
    session->pagemap_fd = open(path, O_RDONLY | O_CLOEXEC);
    session->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    session->begun_ms = milliseconds();
    session->encoder = calloc(1, sizeof *session->encoder);
    name_program(session, salt);
    fill_file_name(session);
    struct record_head head = {.magic = RECORD_MAGIC,
                               .version = RECORD_VERSION,
                               .flags = wanted.is_hashed ? RECORD_HASHED : 0,
                               .page_bytes = (uint32_t)session->page_bytes,
                               .pid = wanted.is_hashed ? 0 : (uint32_t)process};
    memcpy(head.program, session->program, sizeof head.program);
    return session->process_fd >= 0 && session->encoder != NULL && blocks_open(&session->live) &&
           areas_open(&session->areas) && sites_open(&session->sites, process, salt) &&
           (encode_open(session->encoder, session->path, &head) || (say_trouble(session), false));
}

static int received_memory(int socket, int *process)
{
    char room[CMSG_SPACE(sizeof(int))], byte;
    struct iovec part = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct ucred peer;
    socklen_t size = sizeof peer;
    struct timeval limit = {.tv_sec = 1};
    int memory = -1;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != getuid() ||
        setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0 ||
        recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1)
        return -1;
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if (head != NULL && head->cmsg_type == SCM_RIGHTS)
        memcpy(&memory, CMSG_DATA(head), sizeof memory);
    *process = peer.pid;
    return memory;
}

static void admit(void)
{
    int socket = accept4(listener, NULL, NULL, SOCK_CLOEXEC), process = 0;
    int memory = socket < 0 ? -1 : received_memory(socket, &process);
    struct session *session = memory < 0 ? NULL : calloc(1, sizeof *session);
    if (session != NULL) {
        close_session_of(process);
        bool is_open = open_session(session, memory, process);
        if (is_open) {
            session->next = sessions;
            sessions = session;
        }
        char byte = is_open ? 'y' : 'n';
        (void)!send(socket, &byte, 1, MSG_NOSIGNAL);
    }
    if (memory >= 0)
        close(memory);
    if (socket >= 0)
        close(socket);
}

/* Returns the words in the fullest ring. */
static uint64_t serve(struct session *session)
{
    if (session->encoder->trouble != 0) {
        give_up(session);
        return 0;
    }
    bool is_ending = atomic_load(&session->shared->wants_look) != 0;
    uint64_t fullest = session_drain(session, false), now = milliseconds();
    if (atomic_load(&session->shared->waiting) > 0)
        syscall(SYS_futex, &session->shared->rounds, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
    if (is_ending || now >= session->sample_due_ms)
        session_sample(session);
    if (is_ending) {
        atomic_store(&session->shared->wants_look, 0);
        syscall(SYS_futex, &session->shared->wants_look, FUTEX_WAKE, 1, NULL, NULL, 0);
    }
    if (now >= session->flush_due_ms) {
        encode_flush(session->encoder);
        session->flush_due_ms = now + FLUSH_MS;
    }
    if (now >= session->threads_due_ms && session->shared->process == session->process) {
        session_reap_threads(session);
        session->threads_due_ms = now + REAP_MS;
    }
    return fullest;
}

static void wait_for_news(long microseconds)
{
    struct pollfd watched[SESSIONS_AT_ONCE + 1] = {{listener, POLLIN, 0}};
    unsigned count = 1;
    for (struct session *at = sessions; at != NULL && count <= SESSIONS_AT_ONCE; at = at->next)
        watched[count++] = (struct pollfd){at->process_fd, POLLIN, 0};
    struct timespec limit = {.tv_nsec = microseconds * 1000};
    ppoll(watched, count, &limit, NULL);
    if (watched[0].revents != 0)
        admit();
    for (unsigned i = 1; i < count; i++)
        for (struct session *at = sessions; watched[i].revents != 0 && at != NULL; at = at->next)
            if (at->process_fd == watched[i].fd)
                at->is_over = true;
}

/* So long that the fullest ring would be a quarter full. */
static long next_sleep(long before, uint64_t fullest)
{
    if (fullest >= RING_WORDS / 2)
        return 0;
    uint64_t longer = (uint64_t)(before + SLEEP_US_MIN) * (RING_WORDS / 4) / (fullest + 1);
    return longer > SLEEP_US_MAX ? SLEEP_US_MAX : (long)longer;
}

static int collect(void)
{
    long sleep_us = 0;
    unsigned idle = 0;
    int status = 0;
    for (;;) {
        uint64_t fullest = 0;
        for (struct session *at = sessions; at != NULL; at = at->next) {
            uint64_t words = serve(at);
            fullest = words > fullest ? words : fullest;
        }
        idle = fullest > 0 ? 0 : idle + 1;
        sleep_us = next_sleep(sleep_us, fullest);
        wait_for_news(idle < IDLE_ROUNDS ? sleep_us : SLEEP_IDLE_US);
        for (struct session **at = &sessions; *at != NULL;) {
            struct session *session = *at;
            if (!session->is_over) {
                at = &session->next;
                continue;
            }
            *at = session->next;
            close_session(session, true);
        }
        if (waitpid((pid_t)child, &status, WNOHANG) == (pid_t)child)
            break;
    }
    while (sessions != NULL) { /* the program's own, or those of programs that live on */
        struct session *session = sessions;
        sessions = session->next;
        struct pollfd state = {session->process_fd, POLLIN, 0};
        close_session(session, session->process == child || poll(&state, 1, 0) == 1);
    }
    return status;
}

static uint64_t microseconds_of(struct timeval time)
{
    return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_usec;
}

/* What the collecting took, and what the program took with the recorder in it. */
static void report_cost(void)
{
    struct rusage own, programs;
    if (json == NULL || getrusage(RUSAGE_SELF, &own) != 0 ||
        getrusage(RUSAGE_CHILDREN, &programs) != 0)
        return;
    fprintf(json,
            "{\"collector_user_us\": %" PRIu64 ", \"collector_system_us\": %" PRIu64
            ", \"program_user_us\": %" PRIu64 ", \"program_system_us\": %" PRIu64 "}\n",
            microseconds_of(own.ru_utime), microseconds_of(own.ru_stime),
            microseconds_of(programs.ru_utime), microseconds_of(programs.ru_stime));
    fclose(json);
}

static void forward(int number)
{
    if (child > 0)
        kill((pid_t)child, number);
}

static bool listen_as(char *name, size_t size)
{
    uint64_t nonce = 0;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (getrandom(&nonce, sizeof nonce, 0) != sizeof nonce)
        return false;
    int length = snprintf(name, size, "calm-record-%d-%016" PRIx64, getpid(), nonce);
    memcpy(address.sun_path + 1, name, (size_t)length);
    listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    return listener >= 0 && bind(listener, (struct sockaddr *)&address, bytes) == 0 &&
           listen(listener, 128) == 0;
}

static void become_program(const char *name)
{
    char text[160];
    snprintf(text, sizeof text, "%d:%d:%s", wanted.has_children, getpid(), name);
    setenv("CALM_RECORD", text, 1);
    setenv("LD_PRELOAD", wanted.preload, 1);
    execv(wanted.path, wanted.program);
    int reason = errno;
    fprintf(stderr, "calm: '%s' cannot be started: %s.\n", wanted.program[0], strerror(reason));
    _exit(reason == ENOENT ? 127 : 126);
}

/* As the program ended, without a core file of our own. */
static int end_as(int status)
{
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    struct rlimit none = {0, 0};
    int number = WTERMSIG(status);
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, number);
    setrlimit(RLIMIT_CORE, &none);
    signal(number, SIG_DFL);
    sigprocmask(SIG_UNBLOCK, &one, NULL);
    kill(getpid(), number);
    return 128 + number;
}

static bool read_words(int count, char **words)
{
    int at = 1;
    for (; at < count && strncmp(words[at], "--", 2) == 0; at++) {
        if (strcmp(words[at], "--children") == 0)
            wanted.has_children = true;
        else if (strcmp(words[at], "--hash-names") == 0)
            wanted.is_hashed = true;
        else if (strcmp(words[at], "--quiet") == 0)
            wanted.is_quiet = true;
        else if (strcmp(words[at], "--json") == 0 && at + 1 < count)
            wanted.json = words[++at];
        else
            return false;
    }
    if (count - at < 4)
        return false;
    wanted.file = words[at];
    wanted.preload = words[at + 1];
    wanted.path = words[at + 2];
    wanted.program = words + at + 3;
    return true;
}

int main(int count, char **words)
{
    static const int ours[] = {SIGINT, SIGQUIT}, passed[] = {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
    char name[80];
    if (!read_words(count, words)) {
        fprintf(stderr,
                "usage: calm_record [--children] [--hash-names] [--quiet] [--json FILE] FILE "
                "PRELOAD PATH PROGRAM ARGS...\n");
        return 2;
    }
    if (wanted.json != NULL && (json = fopen(wanted.json, "we")) == NULL) {
        fprintf(stderr, "calm: '%s' cannot be written: %s.\n", wanted.json, strerror(errno));
        return 1;
    }
    if (!listen_as(name, sizeof name)) {
        fprintf(stderr, "calm: no socket can be made for the recording: %s.\n", strerror(errno));
        return 1;
    }
    child = fork();
    if (child == 0)
        become_program(name);
    if (child < 0) {
        fprintf(stderr, "calm: no process can be made: %s.\n", strerror(errno));
        return 1;
    }
    for (unsigned i = 0; i < sizeof ours / sizeof *ours; i++)
        signal(ours[i], SIG_IGN);
    for (unsigned i = 0; i < sizeof passed / sizeof *passed; i++)
        signal(passed[i], forward);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    int status = collect();
    report_cost();
    if (files_made == 0)
        fprintf(stderr, "calm: nothing was recorded: the program did not load the recorder, or a "
                        "limit on the size of "
                        "files (ulimit -f) is in its way.\n");
    return end_as(status);
}
