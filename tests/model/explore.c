/*
 * explore.c: see explore.h. Schedules are enumerated depth first: a run repeats a prefix of
 * choices, takes the default (the same thread goes on) from there, and the next run differs in the
 * last choice that has an alternative left.
 */
#define _GNU_SOURCE

#include "explore.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

enum { POINTS_MAX = 4096, STACK_BYTES = 128 * 1024, NOBODY = -1, PICKED = 0x80 };

enum thread_state { READY, SLEEPING, DOZING, STOPPED, DONE };

static struct {
    ucontext_t context;
    jmp_buf place;
    enum thread_state state;
    bool is_begun;
    const void *channel;
    void (*body)(void);
    char stack[STACK_BYTES];
} threads[EXPLORE_THREADS_MAX];

static const struct explore_case *model_now;
static void (*step_now)(void);
static unsigned thread_count;
static int running = NOBODY;
static jmp_buf scheduler;
static unsigned preemptions;

/* Of the run: at each point, how many choices there were, and which was taken. `order` is what a
 * reader sees of them: the thread that went on, or PICKED and what was picked. */
static unsigned char choice_count[POINTS_MAX], choice_taken[POINTS_MAX];
static unsigned point_count, prefix_length;
static unsigned char order[POINTS_MAX];

void explore_fail(const char *sentence)
{
    fprintf(stderr, "model %s: %s\nschedule:", model_now->name, sentence);
    for (unsigned i = 0; i < point_count && i < 400; i++)
        fprintf(stderr, order[i] < PICKED ? " %u" : " (%u)", order[i] % PICKED);
    fprintf(stderr, "\n");
    fflush(stderr);
    exit(1);
}

/* What is chosen of `count` at this point of the run. */
static unsigned take_choice(unsigned count)
{
    if (point_count == POINTS_MAX)
        explore_fail("a run has too many steps: threads wait for each other without sleeping");
    unsigned choice = point_count < prefix_length ? choice_taken[point_count] : 0;
    choice_count[point_count] = (unsigned char)count;
    choice_taken[point_count] = (unsigned char)choice;
    return choice;
}

/* Time passes once nobody can go on: those that only doze can then. */
static void end_dozes(void)
{
    for (unsigned i = 0; i < thread_count; i++)
        if (threads[i].state == READY)
            return;
    for (unsigned i = 0; i < thread_count; i++)
        if (threads[i].state == DOZING)
            threads[i].state = READY;
}

/* Which thread goes on: the running one first, then the others that can. */
static int choose(void)
{
    end_dozes();
    int can[EXPLORE_THREADS_MAX];
    unsigned count = 0;
    bool can_stay = running != NOBODY && threads[running].state == READY;
    if (can_stay)
        can[count++] = running;
    for (unsigned i = 0; i < thread_count; i++)
        if ((int)i != running && threads[i].state == READY &&
            (!can_stay || preemptions < model_now->preemptions_max))
            can[count++] = (int)i;
    if (count == 0)
        return NOBODY;
    unsigned choice = take_choice(count);
    order[point_count++] = (unsigned char)can[choice];
    preemptions += can_stay && choice > 0;
    return can[choice];
}

unsigned explore_self(void)
{
    return running == NOBODY ? 0 : (unsigned)running;
}

unsigned explore_pick(unsigned count)
{
    unsigned choice = take_choice(count);
    order[point_count++] = (unsigned char)(PICKED + choice);
    return choice;
}

static void begin_step(void)
{
    if (step_now != NULL)
        step_now();
}

static void run_body(void)
{
    begin_step();
    threads[running].body();
    threads[running].state = DONE;
    _longjmp(scheduler, 1);
}

static void switch_to(int next)
{
    running = next;
    if (threads[next].is_begun)
        _longjmp(threads[next].place, 1);
    threads[next].is_begun = true;
    setcontext(&threads[next].context);
}

/* Runs threads until none can go on. */
static void schedule(void)
{
    _setjmp(scheduler);
    int next = choose();
    if (next != NOBODY)
        switch_to(next);
}

void explore_point(void)
{
    if (running == NOBODY)
        return;
    int next = choose();
    if (next != running && _setjmp(threads[running].place) == 0)
        switch_to(next);
    begin_step();
}

void explore_stop(void)
{
    threads[running].state = STOPPED;
    _longjmp(scheduler, 1);
}

static void wait_as(enum thread_state state, const void *channel)
{
    threads[running].state = state;
    threads[running].channel = channel;
    if (_setjmp(threads[running].place) == 0)
        _longjmp(scheduler, 1);
    begin_step();
}

void explore_sleep(const void *channel)
{
    wait_as(SLEEPING, channel);
}

void explore_doze(const void *channel)
{
    wait_as(DOZING, channel);
}

void explore_wake(const void *channel, uint32_t count)
{
    for (unsigned i = 0; i < thread_count && count > 0; i++)
        if ((threads[i].state == SLEEPING || threads[i].state == DOZING) &&
            threads[i].channel == channel) {
            threads[i].state = READY;
            count--;
        }
}

static void run_once(void)
{
    point_count = 0;
    preemptions = 0;
    running = NOBODY;
    model_now->begin();
    for (unsigned i = 0; i < thread_count; i++) {
        getcontext(&threads[i].context);
        threads[i].context.uc_stack.ss_sp = threads[i].stack;
        threads[i].context.uc_stack.ss_size = STACK_BYTES;
        threads[i].context.uc_link = NULL;
        makecontext(&threads[i].context, run_body, 0);
        threads[i].state = READY;
        threads[i].is_begun = false;
        threads[i].body = model_now->threads[i];
    }
    schedule();
    running = NOBODY;
    for (unsigned i = 0; i < thread_count; i++)
        if (threads[i].state == SLEEPING)
            explore_fail("a thread sleeps for ever: its wake-up was lost");
    model_now->end();
}

/* Moves to the next schedule: the last choice that has an alternative takes it. */
static bool advance(void)
{
    while (point_count > 0 && choice_taken[point_count - 1] + 1 == choice_count[point_count - 1])
        point_count--;
    if (point_count == 0)
        return false;
    choice_taken[point_count - 1]++;
    prefix_length = point_count;
    return true;
}

void explore_each_step(void (*step)(void))
{
    step_now = step;
}

void explore(const struct explore_case *model)
{
    model_now = model;
    thread_count = model->thread_count;
    prefix_length = 0;
    unsigned long runs = 0;
    do {
        run_once();
        runs++;
    } while (advance());
    printf("%s: %lu schedules with at most %u preemptions\n", model->name, runs,
           model->preemptions_max);
}
