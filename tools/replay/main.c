/*
 * main.c: repeats a recording on whatever allocator this program has been given, and says on
 * standard output, as JSON, how long the calls took and what was resident. `calm replay` starts it.
 *
 *   calm_replay [--paced] FILE      repeats; paced: at the program's own speed
 *   calm_replay --list FILE         prints the calls, one a line, and repeats nothing
 *
 * Blocks under 16 KiB are touched whole, a byte a page. Of larger ones as many pages as were seen
 * resident in the program, when they were.
 */
#define _GNU_SOURCE
#include "run.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    SAMPLES_MAX = 4096,
    SAMPLE_US = 20000,
    OUT_BYTES = 1 << 16,
};

struct sample {
    uint64_t calls, live, resident;
    uint64_t program;    /* resident in the program; meaningless when program_ms is 0 */
    uint64_t program_ms; /* 0: the program was not looked at here */
};

static struct decoder decoder;
static struct runner runner;
static struct sample *samples;
static unsigned sample_count;
static uint64_t begun_us, sampled_us, peak_resident;
static char out[OUT_BYTES];
static size_t out_count;

static void flush(void)
{
    for (size_t done = 0; done < out_count;) {
        ssize_t wrote = write(1, out + done, out_count - done);
        if (wrote <= 0)
            break;
        done += (size_t)wrote;
    }
    out_count = 0;
}

static void print(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void print(const char *format, ...)
{
    va_list values;
    if (OUT_BYTES - out_count < 1024)
        flush();
    va_start(values, format);
    int length = vsnprintf(out + out_count, OUT_BYTES - out_count, format, values);
    va_end(values);
    out_count += (size_t)length;
}

/* Where there are too many, each second one that is not the program's goes, or else each second. */
static void thin_out(void)
{
    unsigned kept = 0, programs = 0;
    for (unsigned i = 0; i < sample_count; i++)
        programs += samples[i].program_ms != 0;
    bool spares_programs = programs < SAMPLES_MAX / 2;
    for (unsigned i = 0; i < sample_count; i++)
        if (i % 2 == 0 || (spares_programs && samples[i].program_ms != 0))
            samples[kept++] = samples[i];
    sample_count = kept;
}

static void look(uint64_t program, uint64_t program_ms)
{
    struct sample now = {.calls = decoder.events,
                         .live = runner.live_bytes,
                         .program = program,
                         .program_ms = program_ms};
    if (!areas_resident(&runner.areas, "/proc/self/smaps", &now.resident))
        refuse(runner.path, "/proc/self/smaps cannot be read");
    peak_resident = now.resident > peak_resident ? now.resident : peak_resident;
    if (sample_count == SAMPLES_MAX)
        thin_out();
    samples[sample_count++] = now;
    sampled_us = run_clock_us();
}

static void wait_until(uint64_t ms)
{
    uint64_t now = run_clock_us() - begun_us;
    if (now >= ms * 1000)
        return;
    uint64_t left = ms * 1000 - now;
    struct timespec time = {(time_t)(left / 1000000), (long)(left % 1000000) * 1000};
    nanosleep(&time, NULL);
}

static void replay(bool is_paced)
{
    struct step step;
    for (;;) {
        decode_step(&decoder, &step);
        if (step.what == STEP_NONE)
            break;
        if (step.what == STEP_SAMPLE) {
            run_batch(&runner);
            if (is_paced)
                wait_until(step.count);
            look(step.kind.bytes * 1024, step.count > 0 ? step.count : 1);
            continue;
        }
        run_add(&runner, &step);
        if (decoder.events % 8192 == 0 && run_clock_us() - sampled_us > SAMPLE_US) {
            run_batch(&runner);
            look(0, 0);
        }
    }
    run_batch(&runner);
    look(0, 0);
}

static void report(void)
{
    print("{\"program\": \"%s\", \"page_bytes\": %u, \"calls\": %" PRIu64 ", \"threads\": %u, "
          "\"sites\": %u, \"file_bytes\": %" PRIu64 ", \"is_whole\": %s,\n",
          decoder.head.program, decoder.head.page_bytes, decoder.events, runner.threads_made + 1,
          decoder.site_count, decoder.file_bytes,
          decoder.has_end && decoder.end.is_whole ? "true" : "false");
    print(" \"unknown\": %" PRIu64 ", \"disorder\": %" PRIu64 ", \"lost\": %" PRIu64
          ", \"program_ms\": %" PRIu64 ",\n",
          decoder.end.unknown, decoder.end.disorder, decoder.end.lost, decoder.end.wall_ms);
    print(" \"elapsed_us\": %" PRIu64 ", \"user_us\": %" PRIu64 ", \"system_us\": %" PRIu64
          ", \"failed\": %" PRIu64 ",\n",
          runner.calls_us, runner.cpu_user_us, runner.cpu_system_us, (uint64_t)runner.failed);
    print(" \"peak_live_bytes\": %" PRIu64 ", \"peak_resident_bytes\": %" PRIu64
          ", \"end_live_bytes\": %" PRIu64 ", \"end_live_blocks\": %" PRIu64
          ", \"end_resident_bytes\": %" PRIu64 ",\n \"samples\": [",
          runner.peak_live_bytes, peak_resident, runner.live_bytes, runner.live_blocks,
          samples[sample_count - 1].resident);
    for (unsigned i = 0; i < sample_count; i++) {
        print("%s\n  {\"calls\": %" PRIu64 ", \"live_bytes\": %" PRIu64
              ", \"resident_bytes\": %" PRIu64,
              i == 0 ? "" : ",", samples[i].calls, samples[i].live, samples[i].resident);
        if (samples[i].program_ms != 0)
            print(", \"program_ms\": %" PRIu64 ", \"program_resident_bytes\": %" PRIu64,
                  samples[i].program_ms, samples[i].program);
        print("}");
    }
    print("\n]}\n");
    flush();
}

static void print_text(const char *text, size_t bytes)
{
    print("site %.*s", (int)bytes, text);
}

/* thread, function, slot, then what was asked for. */
static void list(void)
{
    static const char *const functions[] = {"malloc", "calloc", "aligned", "realloc"};
    struct step step;
    for (;;) {
        decode_step(&decoder, &step);
        const struct kind *kind = &step.kind;
        if (step.what == STEP_NONE)
            break;
        if (step.what == STEP_ALLOC || step.what == STEP_RESIZE)
            print("%u %s %u %" PRIu64 " align %u site %u\n", step.thread, functions[kind->function],
                  step.slot, kind->bytes, 1U << kind->align_log2, kind->site);
        else if (step.what == STEP_FREE)
            print("%u free %u\n", step.thread, step.slot);
        else if (step.what == STEP_TOUCH)
            print("%u touch %u pages %" PRIu64 " from %" PRIu64 "\n", step.thread, step.slot,
                  step.count, kind->bytes);
        else if (step.what == STEP_SAMPLE)
            print("- look %" PRIu64 " ms, %" PRIu64 " KiB\n", step.count, kind->bytes);
        else
            print("%u ends\n", step.thread);
    }
    print("%s\n", decoder.has_end ? "end" : "cut short");
    flush();
}

int main(int count, char **words)
{
    bool is_paced = count == 3 && strcmp(words[1], "--paced") == 0;
    bool is_list = count == 3 && strcmp(words[1], "--list") == 0;
    if (count != 2 && !is_paced && !is_list) {
        dprintf(2, "usage: calm_replay [--paced | --list] FILE\n");
        return 2;
    }
    decoder.take_text = is_list ? print_text : NULL;
    decode_open(&decoder, words[count - 1]);
    if (is_list) {
        list();
        return 0;
    }
    samples = table_map(SAMPLES_MAX * sizeof *samples);
    runner.path = words[count - 1];
    run_open(&runner);
    if (samples == NULL)
        refuse(runner.path, "there is no memory for the replay's own tables");
    begun_us = run_clock_us();
    replay(is_paced);
    report();
    run_end_threads(&runner);
    return 0;
}
