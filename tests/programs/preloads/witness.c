/*
 * witness.c: a second preloaded library that writes down, for each process, where its malloc comes
 * from.
 *
 * One line, appended with one write to the file named by WITNESS_LOG: process id, executable, the
 * file that malloc binds to, the file that free binds to, and whether WITNESS_LIBRARY is mapped. It
 * leaves errno alone, and is silent when the variable is absent.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Who defines `name` among the objects that `scope` searches; NULL when the first hit is only a
 * reference. */
static const char *definer_in(void *scope, const char *name)
{
    Dl_info info;
    void *symbol = NULL;
    void *address = dlsym(scope, name);
    if (address == NULL || dladdr1(address, &info, &symbol, RTLD_DL_SYMENT) == 0 || symbol == NULL)
        return NULL;
    return ((ElfW(Sym) *)symbol)->st_shndx == SHN_UNDEF ? NULL : info.dli_fname;
}

/*
 * A program at a fixed address that takes the address of malloc answers with an entry of its own
 * jump table. The calls still go to the first object behind it that defines the name, so that one
 * is looked up by hand.
 */
static const char *owner_of(const char *name)
{
    const char *owner = definer_in(RTLD_DEFAULT, name);
    for (struct link_map *map = _r_debug.r_map->l_next; owner == NULL && map != NULL;
         map = map->l_next) {
        void *object = dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD);
        if (object == NULL)
            continue;
        const char *definer = definer_in(object, name);
        if (definer != NULL && strcmp(definer, map->l_name) == 0)
            owner = map->l_name;
        dlclose(object);
    }
    return owner != NULL ? owner : "?";
}

static int is_wanted(struct dl_phdr_info *info, size_t size, void *wanted)
{
    (void)size;
    return strcmp(info->dlpi_name, wanted) == 0;
}

__attribute__((constructor)) static void testify(void)
{
    const char *log = getenv("WITNESS_LOG");
    char *library = getenv("WITNESS_LIBRARY");
    if (log == NULL || library == NULL)
        return;

    int errno_before = errno;
    char executable[PATH_MAX] = "?";
    ssize_t length = readlink("/proc/self/exe", executable, sizeof executable - 1);
    if (length > 0)
        executable[length] = '\0';

    char line[3 * PATH_MAX];
    int bytes = snprintf(line, sizeof line, "%d\t%s\t%s\t%s\t%d\n", (int)getpid(), executable,
                         owner_of("malloc"), owner_of("free"), dl_iterate_phdr(is_wanted, library));
    int fd = open(log, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd >= 0) {
        if (bytes <= 0 || write(fd, line, (size_t)bytes) != bytes)
            abort(); /* A lost testimony would read as a library that was not loaded. */
        close(fd);
    }
    errno = errno_before;
}
