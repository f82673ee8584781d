/*
 * calm_launch.c: runs one program for `calm run` and measures it from a process that is itself
 * almost empty.
 *
 * The kernel counts what a process held before exec into its peak, so a program started from Python
 * would seem to need Python's memory. `calm run` therefore becomes this program by exec; this one
 * forks, waits, writes what it learned as one line of JSON, and becomes the reporter by exec. The
 * process id stays the same throughout.
 *
 *   calm_launch [--watcher STATE_FD COUNT WATCHER[COUNT]...]
 *               RESULT_FD LD_PRELOAD CALM_OPTIONS COUNT REPORTER[COUNT]... PROGRAM ARGS...
 *
 * Signals: the keyboard's interrupt, quit and stop reach the whole process group, so they are left
 * to the program; SIGTERM, SIGHUP and the user signals come to us alone and are passed on; when the
 * program stops, so do we.
 *
 * The watcher is a process beside the program that looks at its heap from outside and keeps what it
 * saw in STATE_FD, so that a program that is killed has a report as well. Its standard input is a
 * socket to us: the program's number comes first, then one byte for each look that we ask for and
 * wait for, before we pass on a signal that may end the program. It becomes WATCHER only when the
 * program has lived for a while, and is killed once the program has ended.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t child_id, was_continued, watcher_socket = -1;

static const int ignored[] = {SIGINT, SIGQUIT, SIGTSTP, SIGTTOU, SIGTTIN};
static const int forwarded[] = {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH};
enum {
    IGNORED_COUNT = sizeof ignored / sizeof *ignored,
    FORWARDED_COUNT = sizeof forwarded / sizeof *forwarded,
    WORDS_MAX = 64,
    WATCH_AFTER_MS = 100, /* what ends sooner has no watcher's start beside it */
    LOOK_MS_MAX = 2000    /* that a signal waits for; whoever sends SIGTERM waits longer */
};

struct watcher {
    char **words;
    int count, state_fd;
    pid_t id;
};

/* Lets the watcher look at the program and waits for it. In a signal handler. */
static void look_now(void)
{
    int fd = watcher_socket;
    char byte = 0;
    if (fd < 0)
        return;
    while (recv(fd, &byte, 1, MSG_DONTWAIT) == 1)
        ; /* an answer that came too late for the last one */
    struct pollfd answer = {.fd = fd, .events = POLLIN};
    if (send(fd, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1)
        poll(&answer, 1, LOOK_MS_MAX);
}

static void forward(int signal_number)
{
    int saved = errno;
    was_continued |= signal_number == SIGCONT;
    if (signal_number == SIGTERM || signal_number == SIGHUP)
        look_now();
    if (child_id > 0)
        kill((pid_t)child_id, signal_number);
    errno = saved;
}

/* Sets our own handlers and remembers what was there, for the program and for the reporter. */
static void signals_take(struct sigaction *before)
{
    struct sigaction action = {.sa_handler = SIG_IGN};
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < IGNORED_COUNT; i++)
        sigaction(ignored[i], &action, &before[i]);
    for (int i = 0; i < FORWARDED_COUNT; i++) {
        sigaction(forwarded[i], NULL, &before[IGNORED_COUNT + i]);
        /* What the caller chose to ignore (nohup) stays ignored. */
        bool is_ignored = before[IGNORED_COUNT + i].sa_handler == SIG_IGN &&
                          forwarded[i] != SIGCONT;
        action.sa_handler = is_ignored ? SIG_IGN : forward;
        action.sa_flags = SA_RESTART;
        sigfillset(&action.sa_mask);
        sigaction(forwarded[i], &action, NULL);
    }
}

static void signals_give_back(const struct sigaction *before)
{
    for (int i = 0; i < IGNORED_COUNT; i++)
        sigaction(ignored[i], &before[i], NULL);
    for (int i = 0; i < FORWARDED_COUNT; i++)
        sigaction(forwarded[i], &before[IGNORED_COUNT + i], NULL);
}

/* Waits for the program to get going, then becomes the watcher. Ends with whoever started it. */
_Noreturn static void become_watcher(const struct watcher *watcher, int socket)
{
    char program[16] = "", *arguments[WORDS_MAX + 2];
    for (int i = 0; i < IGNORED_COUNT; i++)
        signal(ignored[i], SIG_IGN);
    for (int i = 0; i < FORWARDED_COUNT; i++)
        signal(forwarded[i], SIG_IGN); /* a signal to all of a group is not for us */
    int null = open("/dev/null", O_RDWR);
    if (null < 0 || dup2(socket, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0 ||
        recv(0, program, sizeof program - 1, 0) <= 0)
        _exit(1);
    poll(&(struct pollfd){.fd = 0, .events = POLLIN}, 1, WATCH_AFTER_MS);
    memcpy(arguments, watcher->words, (size_t)watcher->count * sizeof *arguments);
    arguments[watcher->count] = program;
    arguments[watcher->count + 1] = NULL;
    execv(arguments[0], arguments);
    _exit(1);
}

/* Without one the program has a report only if it writes one itself. Signals are blocked. */
static void watcher_start(struct watcher *watcher, const sigset_t *mask)
{
    int ends[2];
    if (watcher->words == NULL || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return;
    watcher->id = fork();
    if (watcher->id == 0) {
        close(ends[0]);
        sigprocmask(SIG_SETMASK, mask, NULL);
        become_watcher(watcher, ends[1]);
    }
    close(ends[1]);
    watcher_socket = ends[0];
}

static void watcher_tell(pid_t program)
{
    char number[16];
    int length = snprintf(number, sizeof number, "%d", (int)program);
    if (watcher_socket >= 0)
        send(watcher_socket, number, (size_t)length, MSG_NOSIGNAL);
}

static void watcher_end(struct watcher *watcher)
{
    if (watcher->id <= 0)
        return;
    kill(watcher->id, SIGKILL); /* what it kept is whole at any time */
    while (waitpid(watcher->id, NULL, 0) < 0 && errno == EINTR)
        ;
    close(watcher_socket);
    watcher_socket = -1;
}

static void become_program(char **argv, const char *preload, const char *options, int result_fd,
                           const struct watcher *watcher)
{
    fcntl(result_fd, F_SETFD, FD_CLOEXEC);
    if (watcher->id > 0) {
        fcntl(watcher->state_fd, F_SETFD, FD_CLOEXEC);
        prctl(PR_SET_PTRACER, watcher->id, 0, 0,
              0); /* yama lets ancestors look, and whom we name */
    }
    setenv("LD_PRELOAD", preload, 1);
    setenv("CALM_OPTIONS", options, 1);
    execv(argv[0], argv + 1);
    int error = errno;
    if (error ==
        ENOEXEC) { /* a script whose first line names no interpreter: run it as a shell would */
        argv[1] = argv[0];
        argv[0] = (char[]){"sh"};
        execv("/bin/sh", argv);
    }
    dprintf(result_fd, "{\"exec_errno\":%d}\n", error);
    _exit(error == ENOENT ? 127 : 126);
}

/* Whether the child that was stopped goes on, or has ended; its state stays to be waited for. */
static bool goes_on(pid_t child)
{
    siginfo_t news = {0};
    waitid(P_PID, (id_t)child, &news, WEXITED | WCONTINUED | WNOHANG | WNOWAIT);
    return news.si_pid == child;
}

/*
 * Stops until somebody continues us, and then the child; but not where the child goes on already,
 * since who continued it may have meant both of us, and nobody would do so again. A stop that is
 * still pending is taken back by SIGCONT, so one that comes at any moment is not lost.
 */
static void stop_with(pid_t child)
{
    struct sigaction stops = {.sa_handler = SIG_DFL}, ours;
    sigset_t stop, before;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    sigprocmask(SIG_BLOCK, &stop, &before);
    sigaction(SIGTSTP, &stops, &ours);
    was_continued = 0;
    raise(SIGTSTP);
    bool is_over = goes_on(child);
    if (is_over)
        sigaction(SIGTSTP, &ours, NULL); /* ignored: no longer pending */
    sigprocmask(SIG_SETMASK, &before, NULL);
    sigaction(SIGTSTP, &ours, NULL);
    if (is_over)
        return;
    if (!was_continued && !goes_on(child))
        raise(SIGSTOP); /* in an orphaned process group SIGTSTP does nothing */
    kill(child, SIGCONT);
}

/* Waits until the child has ended. When it is stopped we stop as well, so that the shell above sees
 * it. */
static pid_t wait_for_end(pid_t child, int *status, struct rusage *usage)
{
    for (;;) {
        pid_t pid = wait4(child, status, WUNTRACED, usage);
        if (pid < 0 && errno == EINTR)
            continue;
        if (pid < 0 || !WIFSTOPPED(*status))
            return pid;
        stop_with(child);
    }
}

static long long microseconds(struct timeval time)
{
    return (long long)time.tv_sec * 1000000 + time.tv_usec;
}

static long long now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Takes the watcher's words away from the front. False: they make no sense. */
static bool take_watcher(int *argc, char ***argv, struct watcher *watcher)
{
    if (*argc < 2 || strcmp((*argv)[1], "--watcher") != 0)
        return true;
    watcher->state_fd = *argc > 4 ? atoi((*argv)[2]) : 0;
    watcher->count = *argc > 4 ? atoi((*argv)[3]) : 0;
    if (watcher->count < 1 || watcher->count > WORDS_MAX || watcher->count > *argc - 4)
        return false;
    watcher->words = *argv + 4;
    *argc -= 3 + watcher->count;
    *argv += 3 + watcher->count;
    return true;
}

/* Puts our words elsewhere, so that ps can be shown others. Returns how many bytes they took. */
static size_t move_words(int argc, char **argv)
{
    size_t bytes = (size_t)(argv[argc - 1] - argv[0]) + strlen(argv[argc - 1]) + 1;
    char *copy = malloc(bytes);
    if (copy == NULL)
        return 0;
    memcpy(copy, argv[0], bytes);
    for (int i = argc - 1; i >= 0; i--)
        argv[i] = copy + (argv[i] - argv[0]);
    return bytes;
}

/* Makes ps show the program's words for us, which wait for it, where ours were. They fit: ours had
 * them at the end. */
static void show_words(char *where, size_t bytes, char **words)
{
    if (bytes == 0)
        return;
    memset(where, 0, bytes);
    for (; *words != NULL; where += strlen(*words) + 1, words++)
        memcpy(where, *words, strlen(*words));
}

static void tell_result(int result_fd, pid_t child, int status, long long start_us,
                        const struct rusage *usage)
{
    long long end_us = now_us();
    dprintf(result_fd,
            "{\"pid\":%d,\"status\":%d,\"elapsed_us\":%lld,\"end_us\":%lld,"
            "\"peak_rss_bytes\":%lld,\"minor_faults\":%ld,"
            "\"major_faults\":%ld,\"user_us\":%lld,\"system_us\":%lld}\n",
            (int)child, status, end_us - start_us, end_us, (long long)usage->ru_maxrss * 1024,
            usage->ru_minflt, usage->ru_majflt, microseconds(usage->ru_utime),
            microseconds(usage->ru_stime));
}

int main(int argc, char **argv)
{
    struct watcher watcher = {.state_fd = -1};
    char *shown = argv[0];
    size_t shown_bytes = move_words(argc, argv);
    if (!take_watcher(&argc, &argv, &watcher) || argc < 7)
        return 2;
    int result_fd = atoi(argv[1]);
    int reporter_count = atoi(argv[4]);
    char **reporter = argv + 5;
    char **program = reporter + reporter_count; /* path, then argv[0] and the arguments */
    if (reporter_count < 1 || reporter_count >= WORDS_MAX || 5 + reporter_count + 2 > argc)
        return 2;

    show_words(shown, shown_bytes, program + 1);
    struct sigaction before[IGNORED_COUNT + FORWARDED_COUNT];
    sigset_t all, mask;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &mask);
    signals_take(before);
    watcher_start(&watcher, &mask);
    long long start_us = now_us();
    pid_t child = fork();
    if (child == 0) {
        signals_give_back(before);
        sigprocmask(SIG_SETMASK, &mask, NULL);
        become_program(program, argv[2], argv[3], result_fd, &watcher);
    }
    watcher_tell(child);
    child_id = child;
    sigprocmask(SIG_SETMASK, &mask, NULL);

    int status = 126 << 8;
    struct rusage usage = {0};
    if (child > 0)
        wait_for_end(child, &status, &usage);
    child_id = 0;
    tell_result(result_fd, child, status, start_us, &usage);
    sigprocmask(SIG_BLOCK, &all, NULL); /* no handler may find the watcher half gone */
    watcher_end(&watcher);

    char *arguments[WORDS_MAX];
    memcpy(arguments, reporter, (size_t)reporter_count * sizeof *arguments);
    arguments[reporter_count] = NULL;
    sigprocmask(SIG_SETMASK, &mask, NULL); /* what is pending has nobody to be passed on to */
    signals_give_back(before);
    execv(arguments[0], arguments);
    return 126;
}
