/*
 * set_uid.c: a set-uid program does not read CALM_OPTIONS. Root makes a copy of this program that
 * is another user's and set-uid, and runs it; a copy that is not set-uid reads the option.
 *
 * Skipped where this is not root, and where the kernel does not believe the bit of a file here.
 * Seen to fail with a heap that reads the environment of such a program.
 */
#define _GNU_SOURCE

#include "check.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "calmalloc/calmalloc.h"

enum { NOBODY = 65534, DELAY_MS = 17, WAS_READ = 1, WAS_NOT_READ = 2, SKIPPED = 77 };

/* In a copy: whether the option is what the environment says. */
static int look(bool is_set_uid)
{
    uint64_t delay = 0;
    if ((getauxval(AT_SECURE) != 0) != is_set_uid)
        return SKIPPED;
    CHECK(calm_option_get("purge_delay_ms", &delay) == 0, "no such option");
    return delay == DELAY_MS ? WAS_READ : WAS_NOT_READ;
}

static int run(const char *path, mode_t mode)
{
    int status;
    CHECK(chmod(path, mode) == 0, "no mode");
    pid_t child = fork();
    if (child == 0) {
        clearenv();
        setenv("CALM_OPTIONS", "purge_delay_ms=17", 1);
        execl(path, path, mode & S_ISUID ? "set-uid" : "plain", (char *)NULL);
        _exit(3);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status), "no child");
    return WEXITSTATUS(status);
}

int main(int count, char **words)
{
    if (count > 1)
        return look(strcmp(words[1], "set-uid") == 0);
    if (geteuid() != 0)
        return SKIPPED;
    char path[] = "./set_uid_XXXXXX";
    int file = mkstemp(path), program = open("/proc/self/exe", O_RDONLY);
    struct stat facts;
    CHECK(file >= 0 && program >= 0 && fstat(program, &facts) == 0, "no copy");
    CHECK(sendfile(file, program, NULL, (size_t)facts.st_size) == facts.st_size, "half a copy");
    CHECK(fchown(file, NOBODY, NOBODY) == 0, "no other user");
    close(file);
    int plain = run(path, 0755), set_uid = run(path, S_ISUID | 0755);
    unlink(path);
    CHECK(plain == WAS_READ, "a plain program did not read the option: %d", plain);
    if (set_uid == SKIPPED)
        return SKIPPED;
    CHECK(set_uid == WAS_NOT_READ, "a set-uid program read the option: %d", set_uid);
    return 0;
}
