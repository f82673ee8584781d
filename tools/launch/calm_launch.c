/*
 * calm_launch.c: runs one program for `calm run` and measures it from a process that is itself
 * almost empty.
 *
 * The kernel counts what a process held before exec into its peak, so a program started from Python
 * would seem to need Python's memory. `calm run` therefore becomes this program by exec; this one
 * forks, waits, writes what it learned as one line of JSON, and becomes the reporter by exec. The
 * process id stays the same throughout.
 *
 *   calm_launch RESULT_FD LD_PRELOAD CALM_OPTIONS COUNT REPORTER[COUNT]... PROGRAM ARGS...
 *
 * Signals: the keyboard's interrupt, quit and stop reach the whole process group, so they are left
 * to the program; SIGTERM, SIGHUP and the user signals come to us alone and are passed on; when the
 * program stops, so do we.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t child_id, was_continued;

static const int ignored[] = {SIGINT, SIGQUIT, SIGTSTP, SIGTTOU, SIGTTIN};
static const int forwarded[] = {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH};
enum {
    IGNORED_COUNT = sizeof ignored / sizeof *ignored,
    FORWARDED_COUNT = sizeof forwarded / sizeof *forwarded
};

static void forward(int signal_number)
{
    int saved = errno;
    was_continued |= signal_number == SIGCONT;
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

static void become_program(char **argv, const char *preload, const char *options, int result_fd)
{
    fcntl(result_fd, F_SETFD, FD_CLOEXEC);
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

int main(int argc, char **argv)
{
    if (argc < 7)
        return 2;
    int result_fd = atoi(argv[1]);
    int reporter_count = atoi(argv[4]);
    char **reporter = argv + 5;
    char **program = reporter + reporter_count; /* path, then argv[0] and the arguments */
    if (reporter_count < 1 || 5 + reporter_count + 2 > argc)
        return 2;

    struct sigaction before[IGNORED_COUNT + FORWARDED_COUNT];
    sigset_t all, mask;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &mask);
    signals_take(before);
    long long start_us = now_us();
    pid_t child = fork();
    if (child == 0) {
        signals_give_back(before);
        sigprocmask(SIG_SETMASK, &mask, NULL);
        become_program(program, argv[2], argv[3], result_fd);
    }
    child_id = child;
    sigprocmask(SIG_SETMASK, &mask, NULL);

    int status = 126 << 8;
    struct rusage usage = {0};
    if (child > 0)
        wait_for_end(child, &status, &usage);
    long long elapsed_us = now_us() - start_us;
    child_id = 0;
    dprintf(result_fd,
            "{\"pid\":%d,\"status\":%d,\"elapsed_us\":%lld,\"peak_rss_bytes\":%lld,\"minor_"
            "faults\":%ld,"
            "\"major_faults\":%ld,\"user_us\":%lld,\"system_us\":%lld}\n",
            (int)child, status, elapsed_us, (long long)usage.ru_maxrss * 1024, usage.ru_minflt,
            usage.ru_majflt, microseconds(usage.ru_utime), microseconds(usage.ru_stime));

    char *arguments[64];
    if (reporter_count >= 64)
        return 2;
    memcpy(arguments, reporter, (size_t)reporter_count * sizeof *arguments);
    arguments[reporter_count] = NULL;
    signals_give_back(before);
    execv(arguments[0], arguments);
    return 126;
}
