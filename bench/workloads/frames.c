/*
 * frames SEED FRAMES BYTES_A_FRAME BYTES PAUSE_MS: in each frame allocates as many blocks of BYTES
 * as BYTES_A_FRAME has, touches each of their pages, frees all, and pauses.
 *
 * Measures what a program pays that takes the same memory again in each frame: time, and page
 * faults for each frame of the second half. The pauses are not timed. Does not measure what stays
 * once it ends (`burst_idle`).
 */
#include "slots.h"

#include <sys/resource.h>
#include <time.h>

static double faults(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_minflt;
}

int main(int argc, char **argv)
{
    uint64_t check = random_stream(argument(argc, argv, 1, "seed"), 0) & 1;
    uint64_t frames = argument(argc, argv, 2, "frames");
    size_t frame_bytes = argument(argc, argv, 3, "bytes a frame");
    size_t bytes = argument(argc, argv, 4, "bytes");
    struct timespec pause = {.tv_nsec = (long)argument(argc, argv, 5, "pause ms") * 1000000};
    size_t count = frame_bytes / bytes;
    unsigned char **blocks = calloc(count, sizeof *blocks);
    double before = 0;
    if (blocks == NULL || frames < 2)
        fail("two frames at least, and memory for the list of blocks");
    for (uint64_t frame = 0; frame < frames; frame++) {
        if (frame == frames / 2)
            before = faults();
        start_clock();
        for (size_t i = 0; i < count; i++) {
            blocks[i] = allocate(bytes, 0);
            block_stamp(blocks[i], (uint32_t)bytes, (uint32_t)i);
        }
        for (size_t i = 0; i < count; i++) {
            check += block_check(blocks[i], (uint32_t)bytes, (uint32_t)i);
            free(blocks[i]);
        }
        stop_clock();
        nanosleep(&pause, NULL);
    }
    result_number("faults_a_frame", (faults() - before) / (double)(frames - frames / 2));
    free(blocks);
    return result_print(check);
}
