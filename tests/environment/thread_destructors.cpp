/*
 * thread_destructors.cpp: a thread's last acts. Destructors of thread-specific data allocate and
 * free, set their own keys again so that they run for several rounds, and free blocks of other
 * threads; thread_local objects of C++ do the same. All of this may happen after the heap has done
 * its own work for the thread's end, and nothing may be lost: many such threads leave the process
 * as small as it was.
 */
#include "check.h"

#include <atomic>
#include <cstdlib>
#include <malloc.h>
#include <memory>
#include <pthread.h>
#include <string>
#include <vector>

namespace
{

const int KEYS = 20;
const int ROUNDS = 4; /* as many as the C library promises to run */
const int THREADS = 2000;
const std::size_t BLOCK_BYTES = 3000;

pthread_key_t keys[KEYS];
std::atomic<long> destructor_calls{0};
std::atomic<void *> handed_over{nullptr};

struct note {
    int key;
    int rounds_left;
    void *block;
};

void leave_note(int key, int rounds_left)
{
    auto *left = static_cast<note *>(malloc(sizeof(note)));
    left->key = key;
    left->rounds_left = rounds_left;
    left->block = malloc(BLOCK_BYTES);
    block_sign(left->block, BLOCK_BYTES);
    pthread_setspecific(keys[key], left);
}

void finish(void *value)
{
    auto *left = static_cast<note *>(value);
    destructor_calls++;
    CHECK(block_is_signed(left->block, BLOCK_BYTES),
          "a block was overwritten at the end of a thread");
    free(left->block);
    free(handed_over.exchange(malloc(BLOCK_BYTES)));
    int key = left->key;
    int rounds_left = left->rounds_left - 1;
    free(left);
    if (rounds_left > 0)
        leave_note(key, rounds_left);
}

struct late {
    std::vector<std::string> words;
    ~late()
    {
        for (int i = 0; i < 50; i++)
            words.push_back(std::string(static_cast<std::size_t>(i) * 40, 'w'));
        auto last = std::make_unique<std::string>(10000, 'x');
        words.clear();
    }
};

thread_local late late_instance;

void *worker(void *)
{
    late_instance.words.assign(10, "a string that is too long to be kept inside the object itself");
    for (int k = 0; k < KEYS; k++)
        leave_note(k, ROUNDS);
    return malloc(BLOCK_BYTES);
}

void run_threads(int count)
{
    for (int t = 0; t < count; t++) {
        pthread_t thread;
        void *result = nullptr;
        CHECK(pthread_create(&thread, nullptr, worker, nullptr) == 0, "no thread");
        pthread_join(thread, &result);
        free(result);
    }
}

} // namespace

int main()
{
    check_is_calmalloc();
    check_time_limit(60);
    for (pthread_key_t &key : keys)
        CHECK(pthread_key_create(&key, finish) == 0, "no key");
    run_threads(50);
    long calls_before = destructor_calls;
    CHECK(calls_before == 50 * KEYS * ROUNDS, "the destructors ran %ld times", calls_before);
    std::size_t before = resident_bytes();
    run_threads(THREADS);
    std::size_t after = resident_bytes();
    CHECK(after < before + 2 * MIB, "%d threads left %zu KiB behind", THREADS,
          (after - before) / KIB);
    return 0;
}
