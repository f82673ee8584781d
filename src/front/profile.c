/*
 * profile.c: starts the profiler and writes profiles, as the options say.
 *
 * Owner: the start writes the options' values; the signal handler counts the files it made.
 * Design: docs/design/profiler.md
 */
#include "front/profile.h"

#include "base/text.h"
#include "front/front.h"
#include "os/dump.h"
#include "site/profile_write.h"
#include "site/sample.h"

enum { KIB = 1024, NAME_MAX_BYTES = 64, NAMES_MAX = 1000 };

static uint64_t profile_file[2]; /* identity of profile_fd at start */
static _Atomic uint32_t files_written;

void profile_start_wanted(void)
{
    uint64_t rate = option_value(OPTION_profile_kb) * KIB;
    front_note_file((int)option_value(OPTION_profile_fd), profile_file);
    if (rate != 0)
        sample_start(rate, 0);
}

/* Creates the next file, whose name must not exist yet. Returns the descriptor or a negative
 * errno. */
static int create_next(void)
{
    for (unsigned tries = 0; tries < NAMES_MAX; tries++) {
        char buffer[NAME_MAX_BYTES];
        struct text name = text_begin(buffer, sizeof buffer - 1);
        text_add(&name, "calm.");
        text_add_number(&name, os_process_id());
        text_add_char(&name, '.');
        text_add_number(&name, fetch_add(&files_written, 1, RELAXED));
        text_add(&name, ".pb.gz");
        buffer[name.length] = '\0';
        int fd = os_file_create(buffer);
        if (fd != -FRONT_EEXIST)
            return fd;
    }
    return -FRONT_EEXIST;
}

static void on_signal(int number)
{
    (void)number;
    int before = os_errno();
    int fd = create_next();
    if (fd >= 0) {
        profile_write(fd, PROFILE_PPROF);
        os_file_close(fd);
    }
    os_set_errno(before);
}

void profile_at_load(void)
{
    int number = (int)option_value(OPTION_profile_signal);
    if (number != 0)
        os_counted(os_on_signal(number, on_signal));
}

void profile_at_exit(void)
{
    int fd = (int)option_value(OPTION_profile_fd);
    if (!front_is_file(fd, profile_file))
        return;
    os_file_lock(fd); /* a child that exits now writes to the same file */
    profile_write(fd, PROFILE_PPROF);
    os_file_unlock(fd);
}
