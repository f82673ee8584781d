/*
 * driver.c: runs a fuzz target without libFuzzer: its corpus, files named on the command line, and
 * random inputs.
 *
 *     TARGET [--runs N] [--seed N] [FILE...]
 *
 * A random input is a mutation of one of the corpus, or noise. An input that stops the program is
 * written to crash-SEED-RUN first, so that the same program, given that file, repeats it.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "oracle.h"
#include "target.h"

enum { INPUT_MAX = 1024 };

static uint8_t input[INPUT_MAX];
static size_t input_size;
static char crash_name[64];

static void on_abort(int signal_number)
{
    FILE *file = fopen(crash_name, "wb");
    if (file != NULL) {
        fwrite(input, 1, input_size, file);
        fclose(file);
        fprintf(stderr, "driver: the input is in %s\n", crash_name);
    }
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static void mutate(uint64_t *random)
{
    uint64_t choice = stress_random(random);
    if (choice % 4 == 0) {
        input_size = stress_random(random) % INPUT_MAX;
        for (size_t i = 0; i < input_size; i++)
            input[i] = (uint8_t)stress_random(random);
        return;
    }
    const struct fuzz_input *base = &fuzz_corpus[choice / 4 % fuzz_corpus_count];
    input_size = base->size;
    memcpy(input, base->data, base->size);
    for (uint64_t changes = stress_random(random) % 16; changes > 0; changes--) {
        size_t at = input_size > 0 ? stress_random(random) % input_size : 0;
        size_t more = stress_random(random) % 24;
        if (changes % 3 == 0 && input_size + more < INPUT_MAX) { /* repeats a piece */
            memmove(input + at + more, input + at, input_size - at);
            input_size += more;
        } else if (input_size > 0) {
            input[at] = (uint8_t)stress_random(random);
        }
    }
}

static void run_file(const char *name)
{
    FILE *file = fopen(name, "rb");
    if (file == NULL)
        exit((perror(name), 2));
    input_size = fread(input, 1, INPUT_MAX, file);
    fclose(file);
    LLVMFuzzerTestOneInput(input, input_size);
}

int main(int argc, char **argv)
{
    uint64_t runs = 2000, seed = 1;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--runs") == 0 && i + 1 < argc)
            runs = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            seed = strtoull(argv[++i], NULL, 10);
        else
            exit((run_file(argv[i]), 0));
    }
    signal(SIGABRT, on_abort);
    signal(SIGSEGV, on_abort);
    for (size_t i = 0; i < fuzz_corpus_count; i++) {
        snprintf(crash_name, sizeof crash_name, "crash-corpus-%zu", i);
        input_size = fuzz_corpus[i].size;
        memcpy(input, fuzz_corpus[i].data, input_size);
        LLVMFuzzerTestOneInput(input, input_size);
    }
    uint64_t random = seed;
    for (uint64_t run = 0; run < runs; run++) {
        snprintf(crash_name, sizeof crash_name, "crash-%llu-%llu", (unsigned long long)seed,
                 (unsigned long long)run);
        mutate(&random);
        LLVMFuzzerTestOneInput(input, input_size);
    }
    printf("%zu inputs of the corpus and %llu random ones\n", fuzz_corpus_count,
           (unsigned long long)runs);
    return 0;
}
