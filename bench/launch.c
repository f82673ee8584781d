/*
 * launch: starts one program under one library and says what it cost, as one line of JSON in a
 * file.
 *
 *   launch RESULT SECONDS LIBRARY|- PROGRAM ARGUMENT...
 *
 * A process inherits the peak of the one that started it, so a large parent would hide the peaks of
 * small programs. This one is linked statically and stays well under a megabyte. CPU time and peak
 * RSS are those of the program and of all its descendants that were waited for (the largest peak,
 * the sum of times). After SECONDS the whole process group is killed and the run says so. LIBRARY
 * reaches the program through LD_PRELOAD; the launcher runs without it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t timed_out, was_interrupted;
static pid_t child;

static void on_alarm(int signal_number)
{
    (void)signal_number;
    timed_out = 1;
    kill(-child, SIGKILL);
}

/* Ctrl-C on the runner must not leave a benchmark behind. */
static void on_interrupt(int signal_number)
{
    (void)signal_number;
    was_interrupted = 1;
    kill(-child, SIGKILL);
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static double seconds_of(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec * 1e-6;
}

/* The peak of this process itself, for the runner to check. Its getrusage() would tell its
 * parent's. */
static long own_peak_kib(void)
{
    static char text[8192];
    int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t got = file < 0 ? -1 : read(file, text, sizeof text - 1);
    const char *at = got <= 0 ? NULL : strstr(text, "VmHWM:");
    if (file >= 0)
        close(file);
    return at == NULL ? -1 : strtol(at + strlen("VmHWM:"), NULL, 10);
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fputs("usage: launch RESULT SECONDS LIBRARY|- PROGRAM ARGUMENT...\n", stderr);
        return 2;
    }
    const char *library = argv[3];
    /* A runner that was killed must not leave a benchmark behind either. */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    int started[2];
    if (pipe2(started, O_CLOEXEC) != 0) {
        perror("launch: pipe");
        return 2;
    }
    double start = seconds_now();
    child = fork();
    if (child < 0) {
        perror("launch: fork");
        return 2;
    }
    if (child == 0) {
        setpgid(0, 0);
        /* Nor one that is killed itself. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (strcmp(library, "-") != 0)
            setenv("LD_PRELOAD", library, 1);
        else
            unsetenv("LD_PRELOAD");
        execvp(argv[4], argv + 4);
        int error = errno;
        if (write(started[1], &error, sizeof error) < 0)
            _exit(126);
        _exit(127);
    }
    setpgid(child, child);
    signal(SIGALRM, on_alarm);
    signal(SIGINT, on_interrupt);
    signal(SIGTERM, on_interrupt);
    alarm((unsigned)atoi(argv[2]));
    close(started[1]);
    int error = 0, status = 0;
    struct rusage usage;
    while (read(started[0], &error, sizeof error) < 0 && errno == EINTR)
        ;
    while (wait4(child, &status, 0, &usage) < 0 && errno == EINTR)
        ;
    double wall = seconds_now() - start;
    alarm(0);
    kill(-child, SIGKILL);
    if (was_interrupted)
        return 130;
    FILE *out = fopen(argv[1], "w");
    if (out == NULL) {
        perror("launch: result");
        return 2;
    }
    fprintf(
        out,
        "{\"exec_error\": \"%s\", \"exit\": %d, \"signal\": %d, \"timed_out\": %s, \"wall\": %.6f, "
        "\"user\": %.6f, "
        "\"system\": %.6f, \"peak_kib\": %ld, \"minor_faults\": %ld, \"major_faults\": %ld, "
        "\"switches_voluntary\": %ld, \"switches_forced\": %ld, \"launcher_kib\": %ld}\n",
        error == 0 ? "" : strerror(error), WIFEXITED(status) ? WEXITSTATUS(status) : -1,
        WIFSIGNALED(status) ? WTERMSIG(status) : 0, timed_out ? "true" : "false", wall,
        seconds_of(usage.ru_utime), seconds_of(usage.ru_stime), usage.ru_maxrss, usage.ru_minflt,
        usage.ru_majflt, usage.ru_nvcsw, usage.ru_nivcsw, own_peak_kib());
    return fclose(out) == 0 ? 0 : 2;
}
