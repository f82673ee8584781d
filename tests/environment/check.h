/*
 * check.h: what every program of this directory needs: a failure in one sentence, the kernel's
 * figures about the process, and proof that it is calmalloc that is being tested.
 *
 * A program passes by exiting 0; it exits 77, with the reason on standard output, when the machine
 * does not allow the test. Nothing here allocates, so that a failure can be told when memory is
 * out.
 */
#ifndef TESTS_ENVIRONMENT_CHECK_H
#define TESTS_ENVIRONMENT_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/types.h>

#ifndef __GLIBC__
/* Other C libraries have no such function; calmalloc brings it all the same. */
int malloc_trim(size_t keep);
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)

/* Ends the program with the sentence, and errno, unless `condition` holds. */
#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition))                                                                          \
            check_fail(__FILE__, __LINE__, __VA_ARGS__);                                           \
    } while (0)

void check_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4), noreturn));

/* Ends the program as skipped. */
void check_skip(const char *reason) __attribute__((noreturn));

/* Ends the program unless malloc belongs to calmalloc. Call it first. */
void check_is_calmalloc(void);

/* Ends the program as skipped, with the allocator's own reason, unless threads work on their cores'
 * caches. */
void check_is_by_cores(void);

/* A function of the library by its name. */
void *check_symbol(const char *name);

/* Ends the program unless the heap's own invariants hold. No other thread may allocate meanwhile.
 */
void check_heap(void);

/* How many caches belong to threads, as the allocator counts them. */
size_t own_caches(void);

/* What the allocator says about itself, as JSON. */
void statistics(char *text, size_t capacity);

/* Ends the program by SIGALRM after `seconds`: a hang is a failure. */
void check_time_limit(unsigned seconds);

/* Starts the program again under a limit on address space of so many bytes, unless it runs there.
 */
void check_is_limited_to(size_t bytes, char **argv);

/* Ends the program unless the child exits 0. `what` names it. */
void check_child_succeeds(pid_t child, const char *what);

/* What the kernel holds for the process, exactly, in bytes; what of it is of no file, since how
 * much of a file is there varies; what is private and writable; what it has reserved; how many
 * mappings; how many tasks. */
size_t resident_bytes(void);
size_t anonymous_bytes(void);
size_t huge_bytes(void);
size_t data_bytes(void);

/* Whether any mapping asks for huge pages; whether one that asks has one. */
bool huge_pages_are_asked_for(void);
bool huge_pages_can_be_had(void);

/* Locked bytes of the process. */
size_t locked_bytes(void);
size_t virtual_bytes(void);
size_t mapping_count(void);
size_t task_count(void);

/* Calls `visit` with the id of every task and `context`. */
void tasks_visit(void (*visit)(const char *task, void *context), void *context);

/* The same of another process, whose tasks are in the folder `tasks`. */
void tasks_visit_in(const char *tasks, void (*visit)(const char *task, void *context),
                    void *context);

/* What the kernel says that a task of that folder may do: its users, groups, capabilities, filters.
 * Empty where the task is gone. */
void task_rights(const char *tasks, const char *task, char *out, size_t capacity);

double seconds_now(void);

/* How long the living threads of the process were ready to run but had no processor, in all. A busy
 * machine's part. */
double seconds_without_processor(void);

/*
 * Waits until no more than `target` bytes are resident, at most `seconds` of a machine that is ours
 * alone; returns what is resident then.
 */
size_t resident_bytes_within(size_t target, double seconds);

void sleep_ms(unsigned milliseconds);

/* Hides a pointer from the compiler. */
void *hidden(void *pointer);

/* Memory for a test's own books, past the allocator under test. */
void *book(size_t bytes);

/* A cheap, seeded, pseudo-random number; `state` starts as anything but 0. */
unsigned long random_next(unsigned long *state);

/* Writes a pattern that depends on the address over the ends of a block, and says whether it is
 * still there.
 */
void block_sign(void *block, size_t size);
bool block_is_signed(const void *block, size_t size);

#ifdef __cplusplus
}
#endif

#endif
