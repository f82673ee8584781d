/*
 * keep.c: the life of the file with the queues: who may use it, and which of its copies is right.
 *
 * FILE stays while the server runs: the next stop writes FILE.new, and moves it into the place of
 * FILE when it is whole and on the disk. So at any moment one of the two is whole. A FILE.new that
 * is whole is the later one: its server was killed before it could move it; the next start does
 * that. FILE.lock is locked by the server that uses FILE, and is never removed.
 *
 * Owner: the main thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server.h"

_Static_assert(KEEP_PATH_MAX >= PATH_MAX, "realpath writes so many bytes");

enum { WHY_BYTES = 256, PRIVATE = 0600 };

static bool complain(const char *path, const char *why)
{
    fprintf(stderr, "calmq: %s stays as it is: %s.\n", path, why);
    return false;
}

static bool cannot_write(const char *path, int error)
{
    fprintf(stderr,
            "calmq: cannot write %s: %s; --keep takes a file in a folder that can be written "
            "to.\n",
            path, strerror(error));
    return false;
}

/* --- where it is --- */

/* The folder's real name, and what of the path is behind it. */
static bool resolve_folder(const char *path, char *real)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/'), *name = slash == NULL ? path : slash + 1;
    if (snprintf(folder, sizeof folder, "%.*s", slash == NULL ? 1 : (int)(slash - path) + 1,
                 slash == NULL ? "." : path) >= PATH_MAX)
        return false;
    if (realpath(folder, real) == NULL)
        return false;
    size_t length = strlen(real), room = PATH_MAX - length;
    return (size_t)snprintf(real + length, room, "/%s", name) < room;
}

/* Two names of one file are one file: links are followed, so that both have the same lock. */
static bool resolve(struct keep *keep, const char *path)
{
    struct stat facts;
    errno = ENAMETOOLONG;
    if (realpath(path, keep->path) == NULL) {
        if (errno != ENOENT)
            return cannot_write(path, errno);
        if (lstat(path, &facts) == 0)
            return complain(path, "it is a link to nothing; give --keep the file itself");
        if (!resolve_folder(path, keep->path))
            return cannot_write(path, errno);
    }
    size_t room = sizeof keep->path, length = strlen(keep->path);
    if (length > 4 && strcmp(keep->path + length - 4, ".new") == 0)
        return complain(path,
                        "a name that ends in .new may be another server's; give --keep another");
    if ((size_t)snprintf(keep->beside, room, "%s.new", keep->path) >= room ||
        (size_t)snprintf(keep->lock_path, room, "%s.lock", keep->path) >= room)
        return cannot_write(path, ENAMETOOLONG);
    return true;
}

/* --- who uses it --- */

static bool lock(struct keep *keep)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char holder[64] = "";
    keep->lock_fd = open(keep->lock_path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, PRIVATE);
    if (keep->lock_fd < 0)
        return cannot_write(keep->lock_path, errno);
    if (fcntl(keep->lock_fd, F_SETLK, &whole) == 0)
        return true;
    if (errno != EAGAIN && errno != EACCES)
        return cannot_write(keep->lock_path, errno);
    if (fcntl(keep->lock_fd, F_GETLK, &whole) == 0 && whole.l_type != F_UNLCK && whole.l_pid > 0)
        snprintf(holder, sizeof holder, ", process %ld,", (long)whole.l_pid);
    fprintf(stderr,
            "calmq: another calmq%s keeps its queues in %s; stop it first, or give this one "
            "another file with --keep.\n",
            holder, keep->path);
    return false;
}

/* --- its bytes --- */

/* Maps a file and checks it. False: it said why; no file is no failure. */
static bool map(struct keep *keep, const char *path, enum keep_state *state)
{
    struct stat facts;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    keep->start = NULL;
    if (fd < 0 && errno == ENOENT)
        return true;
    if (fd < 0 || fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode)) {
        complain(path, fd < 0 ? strerror(errno) : "it is no file; --keep takes one");
        if (fd >= 0)
            close(fd);
        return false;
    }
    keep->bytes = (size_t)facts.st_size;
    static char nothing[1];
    void *start = nothing;
    if (keep->bytes > 0)
        start = mmap(NULL, keep->bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    bool is_there = start != MAP_FAILED && fsync(fd) == 0;
    if (!is_there)
        complain(path, strerror(errno));
    close(fd);
    if (!is_there)
        return false;
    keep->start = start;
    *state = keep_check(keep->start, keep->bytes, &keep->header);
    return true;
}

void keep_unmap(struct keep *keep)
{
    if (keep->start != NULL && keep->bytes > 0)
        munmap((void *)(uintptr_t)keep->start, keep->bytes);
    keep->start = NULL;
}

/* A name is on the disk when its folder is. Some file systems have no such thing. */
static int sync_folder(const struct keep *keep)
{
    char folder[PATH_MAX];
    int length = (int)(strrchr(keep->path, '/') - keep->path) + 1;
    snprintf(folder, sizeof folder, "%.*s", length, keep->path);
    int fd = open(folder, O_RDONLY | O_CLOEXEC);
    int error = fd < 0 || fsync(fd) != 0 ? errno : 0;
    if (fd >= 0)
        close(fd);
    return error == EINVAL ? 0 : error;
}

static int move_into_place(const struct keep *keep)
{
    return rename(keep->beside, keep->path) == 0 ? sync_folder(keep) : errno;
}

/* --- the start --- */

/* What a server left that was killed in its stop: the whole successor of FILE, or a piece of it. */
static bool settle(struct keep *keep)
{
    enum keep_state state = KEEP_WHOLE;
    if (!map(keep, keep->beside, &state))
        return false;
    bool is_there = keep->start != NULL;
    keep_unmap(keep);
    if (!is_there)
        return true;
    if (state == KEEP_FOREIGN || state == KEEP_OTHER_VERSION)
        return complain(keep->beside, "it is none of this calmq's, and its name is needed; "
                                      "move it elsewhere");
    int error = 0;
    if (state == KEEP_WHOLE)
        error = move_into_place(keep);
    else if (unlink(keep->beside) != 0)
        error = errno;
    return error == 0 || cannot_write(keep->path, error);
}

/* Whether the file could be written now: who asks for it is to know before there is a queue. */
static bool can_write(const struct keep *keep)
{
    int fd = open(keep->beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, PRIVATE);
    if (fd < 0)
        return cannot_write(keep->path, errno);
    close(fd);
    return unlink(keep->beside) == 0 || cannot_write(keep->path, errno);
}

static const char *what_is_wrong(enum keep_state state)
{
    switch (state) {
    case KEEP_WHOLE: break;
    case KEEP_CUT_OFF: return "it is cut off; put a whole copy there, or move it away";
    case KEEP_DAMAGED: return "it is damaged; put a whole copy there, or move it away";
    case KEEP_OTHER_VERSION:
        return "another version of calmq wrote it; let that one empty it, or move it away";
    case KEEP_FOREIGN: return "it is none of calmq's; give --keep another name";
    }
    return NULL;
}

bool keep_open(struct server *server)
{
    struct keep *keep = &server->keep;
    char why[WHY_BYTES];
    enum keep_state state = KEEP_WHOLE;
    if (!resolve(keep, server->options.keep_path) || !lock(keep) || !settle(keep) ||
        !can_write(keep) || !map(keep, keep->path, &state))
        return false;
    if (keep->start == NULL)
        return true;
    if (state != KEEP_WHOLE)
        return complain(keep->path, what_is_wrong(state));
    return keep_fits(keep, server, why, sizeof why) || complain(keep->path, why);
}

/* --- the stop --- */

bool keep_write(struct server *server)
{
    struct keep *keep = &server->keep;
    int error = 0;
    int fd = open(keep->beside, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, PRIVATE);
    if (fd < 0)
        return false;
    error = keep_write_queues(fd, server);
    if (error != 0)
        unlink(keep->beside); /* a piece of it helps nobody, and fills the disk */
    else if (fsync(fd) != 0)
        error = errno;
    if (close(fd) != 0 && error == 0)
        error = errno;
    if (error == 0)
        error = move_into_place(keep);
    errno = error;
    return error == 0;
}
