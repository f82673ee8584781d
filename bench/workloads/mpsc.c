/*
 * mpsc SEED PRODUCERS MILLISECONDS: PRODUCERS threads make strings of 7 to 35 bytes and put them
 * into one ring of 16 places; one thread takes them out, checks and frees them, until the time is
 * up. Who finds the ring full or empty yields.
 *
 * Measures what is resident, over time, of a program that keeps at most 16 strings and one for each
 * producer alive: an allocator that lets frees pile up where nobody allocates grows without end. It
 * is read 50 times; `resident_drift_kib` is what the last ten readings have more than the second
 * ten, by their medians. Each producer's strings must come in order, whole, and none may be
 * missing. `string_ns` is the time over the strings that came through; the ring is the narrow
 * place, so it is mostly hand-over and yields. Does not measure how long a single string waits.
 */
#include "text.h"

#include <sched.h>

enum { BYTES_MIN = 7, BYTES_MAX = 35, PLACES = 16, PRODUCERS_MAX = 64 };

/* `turn` says whose move it is: ticket n may fill at turn n, be taken at n + 1, refilled at n + 16.
 */
static struct place {
    _Alignas(128) atomic_uint_fast64_t turn;
    char *text;
    uint64_t number;
    unsigned producer;
} places[PLACES];

static _Alignas(128) atomic_uint_fast64_t next_ticket;
static _Alignas(128) atomic_bool is_over;
static atomic_uint producers_left;
static struct {
    _Alignas(128) uint64_t made;
} made_by[PRODUCERS_MAX];
static uint64_t taken_of[PRODUCERS_MAX];
static double readings[READINGS][2];
static uint64_t seed, run_ms;
static unsigned producers;

static uint64_t number_of(unsigned producer, uint64_t count)
{
    return seed + count * producers + producer;
}

static void produce(unsigned producer)
{
    uint64_t count = 0;
    for (; !atomic_load_explicit(&is_over, memory_order_relaxed); count++) {
        uint64_t number = number_of(producer, count);
        char *text = text_new(number, BYTES_MIN, BYTES_MAX);
        uint64_t ticket = atomic_fetch_add(&next_ticket, 1);
        struct place *place = &places[ticket % PLACES];
        while (atomic_load_explicit(&place->turn, memory_order_acquire) != ticket)
            sched_yield();
        place->text = text;
        place->number = number;
        place->producer = producer;
        atomic_store_explicit(&place->turn, ticket + 1, memory_order_release);
    }
    made_by[producer].made = count;
    atomic_fetch_sub(&producers_left, 1);
}

static void place_empty(struct place *place, uint64_t ticket)
{
    unsigned producer = place->producer;
    if (place->number != number_of(producer, taken_of[producer]))
        fail("a string of producer %u is missing or out of order", producer);
    taken_of[producer]++;
    text_verify(place->text, place->number, BYTES_MIN, BYTES_MAX);
    free(place->text);
    atomic_store_explicit(&place->turn, ticket + PLACES, memory_order_release);
}

static void consume(void)
{
    double start = read_clocks().wall, step = (double)run_ms / 1000 / READINGS, now;
    unsigned taken = 0;
    for (uint64_t ticket = 0;;) {
        struct place *place = &places[ticket % PLACES];
        bool are_done = atomic_load(&producers_left) == 0;
        if (atomic_load_explicit(&place->turn, memory_order_acquire) == ticket + 1)
            place_empty(place, ticket++);
        else if (are_done)
            return;
        else
            sched_yield();
        if (ticket % 1024 != 0 || taken == READINGS)
            continue;
        now = read_clocks().wall - start;
        if (now < step * (taken + 1))
            continue;
        readings[taken][0] = now;
        readings[taken++][1] = (double)read_memory().resident_kib;
        if (taken == READINGS)
            atomic_store(&is_over, true);
    }
}

static void work(unsigned index)
{
    if (index == 0)
        consume();
    else
        produce(index - 1);
}

int main(int argc, char **argv)
{
    seed = argument(argc, argv, 1, "seed");
    producers = (unsigned)argument(argc, argv, 2, "producers");
    run_ms = argument(argc, argv, 3, "milliseconds");
    if (producers == 0 || producers > PRODUCERS_MAX)
        fail("between 1 and %d producers", PRODUCERS_MAX);
    for (unsigned i = 0; i < PLACES; i++)
        atomic_store(&places[i].turn, i);
    atomic_store(&producers_left, producers);
    run_threads(producers + 1, work);
    uint64_t strings = 0;
    for (unsigned i = 0; i < producers; i++) {
        if (taken_of[i] != made_by[i].made)
            fail("producer %u made %llu strings, %llu arrived", i,
                 (unsigned long long)made_by[i].made, (unsigned long long)taken_of[i]);
        strings += taken_of[i];
    }
    result_number("strings", (double)strings);
    result_number("string_ns", clock_total.wall * 1e9 / (double)strings);
    result_readings((const double(*)[2])readings);
    return result_print(seed * producers);
}
