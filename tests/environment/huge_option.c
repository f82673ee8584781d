/*
 * huge_option.c FROM_MIB: a heap of 40 MiB has huge pages asked for from FROM_MIB on, and nowhere
 * else; 0: nowhere. Read from the kernel's flags of each mapping, whether or not it has given any.
 */
#include "check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { HEAP_MIB = 40, BLOCK_BYTES = 1024 };

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

int main(int argc, char **argv)
{
    int from_mib = argc > 1 ? atoi(argv[1]) : 0;
    check_is_calmalloc();
    for (int i = 0; i < HEAP_MIB * 1024; i++) {
        char *block = malloc(BLOCK_BYTES);
        CHECK(block != NULL, "no memory");
        block[0] = 1;
    }
    if (mib_with(" nh") == 0)
        check_skip("this kernel has no huge pages");
    double asked = mib_with(" hg"), least = from_mib == 0 ? 0 : HEAP_MIB - from_mib;
    double most = from_mib == 0 ? 0 : HEAP_MIB - from_mib + HEAP_MIB / 4;
    CHECK(asked >= least && asked <= most, "huge pages asked for in %.1f MiB, not %.0f to %.0f",
          asked, least, most);
    printf("huge pages asked for in %.1f MiB\n", asked);
    return 0;
}
