/*
 * child.h: runs one misuse in a process of its own and says how that process ended and what it
 * wrote.
 *
 * A misuse is a function that first foretells the exact sentence it must provoke (it alone knows
 * the address and the size of its block) and then provokes it. The sentence is compared with
 * everything the process wrote to standard error, so an extra line is a failure too. A process that
 * hangs is killed by its alarm.
 */
#ifndef TESTS_MISUSE_CHILD_H
#define TESTS_MISUSE_CHILD_H

#include <functional>
#include <string>
#include <vector>

struct outcome {
    int status;           /* as waitpid gives it */
    std::string errors;   /* all of standard error */
    std::string foretold; /* the sentences foretold, a line each */
};

/* In the child: adds one line to what standard error must hold in the end. */
void foretell(const char *format, ...) __attribute__((format(printf, 1, 2)));

outcome run_child(const std::function<void()> &misuse);

/* Runs `program` with `arguments` and `options` in CALM_OPTIONS; what it writes to standard output
 * is foretold. */
outcome run_program(const std::string &program, const std::vector<std::string> &arguments,
                    const std::string &options);

/* The misuse ends the process by SIGABRT after exactly the sentences foretold. */
void expect_stop(const std::function<void()> &misuse);

/* The misuse does not end the process, and nothing but the sentences foretold is written. */
void expect_survival(const std::function<void()> &misuse);

void expect_stopped(const outcome &got);
void expect_survived(const outcome &got);

/* In the child: ends it with a line of complaint, which is never foretold, unless `condition`
 * holds. */
void demand(bool condition, const char *complaint);

#endif
