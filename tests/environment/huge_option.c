/*
 * huge_option.c FROM_MIB: a heap that grows to 40 MiB has huge pages asked for where it has grown
 * last, beyond FROM_MIB, and nowhere else; 0: nowhere. Once it has given something back there,
 * nowhere at all, so that nothing comes back by itself. Read from the kernel's flags of each
 * mapping, whether or not it has given any.
 */
#define _GNU_SOURCE

#include "check.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { HEAP_MIB = 40, BLOCK_BYTES = 1024 };

static void *blocks[HEAP_MIB * 1024];

/* MiB of mappings that have a flag. */
static double mib_with(const char *flag)
{
    FILE *smaps = fopen("/proc/self/smaps", "r");
    char line[512];
    uint64_t from = 0, end = 0, bytes = 0, a, b;
    CHECK(smaps != NULL, "no /proc/self/smaps");
    while (fgets(line, sizeof line, smaps) != NULL) {
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &a, &b) == 2) {
            from = a;
            end = b;
        } else if (strncmp(line, "VmFlags:", 8) == 0 && strstr(line, flag) != NULL) {
            bytes += end - from;
        }
    }
    fclose(smaps);
    return (double)bytes / (1 << 20);
}

/* The heap grows by an eighth, and a half of a huge page may lie before the first whole one. */
static double grow(int from_mib)
{
    double most = 0, limit = from_mib == 0 ? 0 : HEAP_MIB / 8 + 2;
    for (int i = 0; i < HEAP_MIB * 1024; i++) {
        blocks[i] = malloc(BLOCK_BYTES);
        CHECK(blocks[i] != NULL, "no memory");
        *(char *)blocks[i] = 1;
        if (i % 1024 != 0)
            continue;
        double asked = mib_with(" hg");
        CHECK(asked <= (i < (from_mib - 4) * 1024 ? 0 : limit),
              "huge pages asked for in %.1f MiB of a heap of %d MiB, not in up to %.1f", asked,
              i / 1024, limit);
        most = asked > most ? asked : most;
    }
    return most;
}

/* Whether the kernel takes longer over some huge page than the heap puts up with: 1 ms. */
static bool is_slow(void)
{
    enum { TOUCHES = 20 };
    size_t huge = 2 * MIB, bytes = (TOUCHES + 1) * huge;
    char *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(start != MAP_FAILED, "no memory");
    madvise(start, bytes, MADV_HUGEPAGE);
    char *whole = start + (-(uintptr_t)start & (huge - 1));
    bool is_slow = false;
    for (int i = 0; i < TOUCHES; i++) {
        double before = seconds_now();
        *(volatile char *)(whole + (size_t)i * huge) = 1;
        is_slow = is_slow || seconds_now() - before > 0.001;
    }
    munmap(start, bytes);
    return is_slow;
}

int main(int argc, char **argv)
{
    int from_mib = argc > 1 ? atoi(argv[1]) : 0;
    check_is_calmalloc();
    double most = grow(from_mib);
    if (mib_with(" nh") == 0)
        check_skip("this kernel has no huge pages");
    /* One that took long is there all the same. */
    if (from_mib != 0 && most == 0 && (huge_bytes() > 0 || is_slow()))
        check_skip("huge pages take long on this machine just now");
    CHECK(from_mib == 0 || most > 0, "no huge pages asked for");
    for (int i = 0; i < HEAP_MIB * 1024; i++)
        free(blocks[i]);
    malloc_trim(0);
    CHECK(mib_with(" hg") == 0, "huge pages asked for in %.1f MiB of what was given back",
          mib_with(" hg"));
    printf("huge pages asked for in up to %.1f MiB\n", most);
    return 0;
}
