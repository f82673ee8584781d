/*
 * symmetric SEED THREADS ROUNDS TASKS: in each of ROUNDS a pool of THREADS works on TASKS tasks;
 * task n grows an array to n pointers by doubling it with realloc, and makes n strings of 1 to 4
 * bytes. The array is freed at the task's end, the strings are kept for ever.
 *
 * Measures what millions of the smallest blocks cost: with 20 rounds of 2000 tasks 40 million stay
 * alive, so peak RSS is that many times the smallest block, and whatever comes on top. A task
 * checks its strings before it ends; one in 64 of all is checked again at the end of everything,
 * through a table that is resident from the start. Does not measure frees of strings, nor a
 * hand-over between threads: who takes a task does all of it.
 */
#include "text.h"

enum { BYTES_MIN = 1, BYTES_MAX = 4, KEPT_EVERY = 64 };

static struct kept {
    char *text;
    uint64_t number;
} *kept;
static uint64_t seed, rounds, tasks, kept_max;
static atomic_uint_fast64_t next_task, kept_count, strings;

/* A number that no other string has: which round, which task, which place. */
static uint64_t number_of(uint64_t round, uint64_t task, uint64_t place)
{
    return ((seed * rounds + round) * tasks + task) * tasks + place;
}

static void keep(char *text, uint64_t number)
{
    uint64_t at = atomic_fetch_add(&kept_count, 1);
    if (at >= kept_max)
        fail("more strings are kept than were made");
    kept[at] = (struct kept){text, number};
}

static void task_run(uint64_t round, uint64_t task)
{
    char **array = NULL;
    uint64_t capacity = 0;
    for (uint64_t i = 0; i < task; i++) {
        if (i == capacity) {
            capacity = capacity == 0 ? 1 : capacity * 2;
            array = realloc(array, capacity * sizeof *array);
            if (array == NULL)
                fail("realloc to %llu pointers returned NULL", (unsigned long long)capacity);
        }
        array[i] = text_new(number_of(round, task, i), BYTES_MIN, BYTES_MAX);
    }
    for (uint64_t i = 0; i < task; i++) {
        uint64_t number = number_of(round, task, i);
        text_verify(array[i], number, BYTES_MIN, BYTES_MAX);
        if (i % KEPT_EVERY == 0)
            keep(array[i], number);
    }
    free(array);
    atomic_fetch_add(&strings, task);
}

/* Tasks are handed out in order, from the largest of a round to the smallest. */
static void work(unsigned index)
{
    (void)index;
    for (;;) {
        uint64_t mine = atomic_fetch_add(&next_task, 1);
        if (mine >= rounds * tasks)
            return;
        task_run(mine / tasks, tasks - 1 - mine % tasks);
    }
}

int main(int argc, char **argv)
{
    seed = argument(argc, argv, 1, "seed");
    unsigned threads = (unsigned)argument(argc, argv, 2, "threads");
    rounds = argument(argc, argv, 3, "rounds");
    tasks = argument(argc, argv, 4, "tasks");
    kept_max = rounds * tasks * (tasks / KEPT_EVERY + 1);
    kept = malloc(kept_max * sizeof *kept);
    if (kept == NULL)
        fail("no memory for the table");
    memset(kept, 1, kept_max * sizeof *kept);
    struct memory start = read_memory();
    run_threads(threads, work);
    struct memory full = read_memory();
    uint64_t count = atomic_load(&kept_count), made = atomic_load(&strings), check = 0;
    for (uint64_t i = 0; i < count; i++)
        check += text_verify(kept[i].text, kept[i].number, BYTES_MIN, BYTES_MAX);
    if (made != rounds * (tasks * (tasks - 1) / 2))
        fail("%llu strings were made, which is not what the tasks say", (unsigned long long)made);
    double grown_kib = (double)(full.resident_kib - start.resident_kib);
    result_number("strings", (double)made);
    result_number("grown_kib", grown_kib);
    result_number("bytes_a_string", grown_kib * 1024 / (double)made);
    return result_print(check);
}
