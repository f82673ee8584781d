/*
 * cored.c: the core file of a program that held 200 MiB and freed 150 has each live block, takes
 * the disk space of what is resident, and is as long as what is mapped: no reservation is in it.
 *
 *   cored BYTES   in blocks of BYTES
 *
 * The kernel writes the core of a child that aborts, into a folder of the test's own.
 *
 * Seen to fail beside libraries that, before the end, set MADV_DONTDUMP for the heap, and reserve 1
 * GiB readable and writable.
 */
#define _GNU_SOURCE

#include "check.h"

#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HELD_MIB = 200, ROOM_MIB = 32 };

static const uint64_t key = 0x9e3779b97f4a7c15; /* no word of a program */

struct facts {
    size_t resident, kept;
};

/* Blocks that are kept say so in their first words. */
static size_t hold(size_t bytes)
{
    size_t count = HELD_MIB * MIB / bytes, kept = 0;
    uint64_t **blocks = book(count * sizeof *blocks);
    for (size_t i = 0; i < count; i++) {
        CHECK((blocks[i] = malloc(bytes)) != NULL, "no memory");
        memset(blocks[i], 1, bytes);
    }
    for (size_t i = 0; i < count; i++)
        if (i < count / 4) {
            blocks[i][0] = key;
            blocks[i][1] = i;
            kept++;
        } else
            free(blocks[i]);
    malloc_trim(0);
    return kept;
}

static void end_with_core(size_t bytes, struct facts *facts)
{
    struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
    if (getrlimit(RLIMIT_CORE, &all) != 0 || all.rlim_max < (rlim_t)1024 * MIB)
        _exit(77);
    all.rlim_cur = all.rlim_max;
    CHECK(setrlimit(RLIMIT_CORE, &all) == 0, "no core file is allowed");
    facts->kept = hold(bytes);
    facts->resident = resident_bytes();
    abort();
}

/* Opens the core file in this folder and removes its name; skips where the kernel is told to put it
 * elsewhere. */
static int open_core(pid_t child)
{
    char name[64];
    snprintf(name, sizeof name, "core.%d", (int)child);
    int file = open("core", O_RDONLY);
    if (file < 0)
        file = open(name, O_RDONLY);
    unlink("core");
    unlink(name);
    return file;
}

/* How many of the blocks that are kept the file has. A register of a thread may have one's words,
 * too. */
static size_t count_kept(int file, size_t length, size_t kept)
{
    const uint64_t *words = mmap(NULL, length, PROT_READ, MAP_PRIVATE, file, 0);
    bool *is_seen = book(kept);
    size_t count = 0;
    CHECK(words != MAP_FAILED, "the core cannot be read");
    for (size_t i = 0; i + 1 < length / sizeof *words; i++)
        if (words[i] == key && words[i + 1] < kept && !is_seen[words[i + 1]]) {
            is_seen[words[i + 1]] = true;
            count++;
        }
    return count;
}

static void check_core(int file, const struct facts *facts)
{
    struct stat core;
    CHECK(fstat(file, &core) == 0, "no size");
    size_t length = (size_t)core.st_size, on_disk = (size_t)core.st_blocks * 512;
    CHECK(length < (HELD_MIB + HELD_MIB / 4 * 2 + ROOM_MIB) * MIB,
          "the core of a process that held %d MiB is %zu MiB long", HELD_MIB, length / MIB);
    CHECK(on_disk < facts->resident + ROOM_MIB * MIB,
          "%zu MiB are resident, and the core takes %zu MiB", facts->resident / MIB, on_disk / MIB);
    size_t kept = count_kept(file, length, facts->kept);
    CHECK(kept == facts->kept, "the core has %zu of %zu blocks", kept, facts->kept);
}

int main(int count, char **words)
{
    check_is_calmalloc();
    check_time_limit(100);
    CHECK(count == 2, "how many bytes?");
    size_t bytes = strtoul(words[1], NULL, 10);
    char folder[] = "/tmp/calm-cored-XXXXXX";
    CHECK(mkdtemp(folder) != NULL && chdir(folder) == 0, "no folder");
    struct facts *facts = mmap(NULL, sizeof *facts, PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(facts != MAP_FAILED, "no shared memory");
    pid_t child = fork();
    CHECK(child >= 0, "no child");
    if (child == 0)
        end_with_core(bytes, facts);
    int status;
    waitpid(child, &status, 0);
    int file = open_core(child);
    rmdir(folder);
    CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT) ||
              (WIFEXITED(status) && WEXITSTATUS(status) == 77),
          "the child did not abort: %x", (unsigned)status);
    if (file < 0)
        check_skip("no core files are written here");
    check_core(file, facts);
    return 0;
}
