/*
 * signals.c: no signal but SIGKILL and those of a fault may end the server and its queues at once.
 *
 * A signal that was ignored when the server was started stays so, as under nohup.
 */
#include "signals.h"

#include <pthread.h>

/* A stop: told to, the terminal is gone, the power or the time on the processor comes to its end.
 */
static const int stopping[] = {SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGPWR, SIGXCPU};

/* The default of these is to end the process. Beside them all real-time signals. */
static const int meaningless[] = {SIGPIPE, SIGXFSZ, SIGUSR1,   SIGUSR2,  SIGALRM,
                                  SIGPROF, SIGPOLL, SIGVTALRM, SIGSTKFLT};

enum {
    STOPPING = sizeof stopping / sizeof stopping[0],
    MEANINGLESS = sizeof meaningless / sizeof meaningless[0],
};

static bool is_handled_by(int number, void (*handler)(int))
{
    struct sigaction action;
    return sigaction(number, NULL, &action) == 0 && (action.sa_flags & SA_SIGINFO) == 0 &&
           action.sa_handler == handler;
}

/* One that something else in the process handles is left to it. */
static void ignore(int number)
{
    struct sigaction action = {.sa_handler = SIG_IGN};
    if (is_handled_by(number, SIG_DFL))
        sigaction(number, &action, NULL);
}

void signals_take(sigset_t *stops)
{
    sigemptyset(stops);
    for (unsigned i = 0; i < STOPPING; i++)
        if (stopping[i] == SIGTERM || !is_handled_by(stopping[i], SIG_IGN))
            sigaddset(stops, stopping[i]);
    for (unsigned i = 0; i < MEANINGLESS; i++)
        ignore(meaningless[i]);
    for (int number = SIGRTMIN; number <= SIGRTMAX; number++)
        ignore(number);
    pthread_sigmask(SIG_BLOCK, stops, NULL);
}

/* Not SIGHUP, which systemd sends behind SIGTERM, and a shell and the kernel both when a terminal
 * closes; nor SIGXCPU, which comes each second. */
bool signal_hurries(int number)
{
    return number == SIGTERM || number == SIGINT || number == SIGQUIT;
}
