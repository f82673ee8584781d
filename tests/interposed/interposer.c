/*
 * interposer.c: the functions that an allocator may call, each in a form that asks for memory
 * before it does its work, as a preloaded library's may. interposed_test.py makes a library of each
 * by itself, so here every one may use the others.
 */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* Sizes of several tiers. What malloc says is used: a wrapper that gets none would fail. */
static void ask_for_memory(void)
{
    static const size_t sizes[] = {24, 200, 3000, 40000, 200000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char *block = malloc(sizes[i]);
        if (block == NULL)
            _exit(99);
        *(volatile char *)block = 1;
        free(block);
    }
}

/* The C library's own. */
static void *next(const char *name)
{
    void *found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    if (found == NULL)
        found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    void *(*find)(void *, const char *);
    *(void **)&find = found;
    return find(RTLD_NEXT, name);
}

#define NEXT(result, name, ...)                                                                    \
    result (*real)(__VA_ARGS__);                                                                   \
    *(void **)&real = next(#name)

EXPORT void *dlsym(void *restrict object, const char *restrict name)
{
    ask_for_memory();
    void *(*real)(void *, const char *);
    *(void **)&real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    return real(object, name);
}

EXPORT void *dlopen(const char *path, int mode)
{
    ask_for_memory();
    NEXT(void *, dlopen, const char *, int);
    return real(path, mode);
}

EXPORT int dlclose(void *object)
{
    ask_for_memory();
    NEXT(int, dlclose, void *);
    return real(object);
}

EXPORT char *dlerror(void)
{
    ask_for_memory();
    NEXT(char *, dlerror, void);
    return real();
}

EXPORT int dladdr(const void *address, Dl_info *out)
{
    ask_for_memory();
    NEXT(int, dladdr, const void *, Dl_info *);
    return real(address, out);
}

EXPORT int dladdr1(const void *address, Dl_info *out, void **extra, int flags)
{
    ask_for_memory();
    NEXT(int, dladdr1, const void *, Dl_info *, void **, int);
    return real(address, out, extra, flags);
}

int _dl_find_object(void *address, struct dl_find_object *out);
EXPORT int _dl_find_object(void *address, struct dl_find_object *out)
{
    ask_for_memory();
    NEXT(int, _dl_find_object, void *, struct dl_find_object *);
    return real(address, out);
}

EXPORT int clock_gettime(clockid_t clock, struct timespec *out)
{
    ask_for_memory();
    return (int)syscall(SYS_clock_gettime, clock, out);
}

EXPORT unsigned long getauxval(unsigned long type)
{
    ask_for_memory();
    NEXT(unsigned long, getauxval, unsigned long);
    return real(type);
}

EXPORT char *getenv(const char *name)
{
    ask_for_memory();
    size_t length = strlen(name);
    for (char **entry = environ; entry != NULL && *entry != NULL; entry++)
        if (strncmp(*entry, name, length) == 0 && (*entry)[length] == '=')
            return *entry + length + 1;
    return NULL;
}

EXPORT long sysconf(int name)
{
    ask_for_memory();
    NEXT(long, sysconf, int);
    return real(name);
}

EXPORT ssize_t getrandom(void *out, size_t size, unsigned flags)
{
    ask_for_memory();
    return syscall(SYS_getrandom, out, size, flags);
}

EXPORT int *__errno_location(void)
{
    static _Thread_local int depth;
    NEXT(int *, __errno_location, void);
    if (depth++ == 0) /* malloc may write it, and so may all that this calls */
        ask_for_memory();
    depth--;
    return real();
}

EXPORT int pthread_key_create(pthread_key_t *key, void (*hook)(void *))
{
    ask_for_memory();
    NEXT(int, pthread_key_create, pthread_key_t *, void (*)(void *));
    return real(key, hook);
}

EXPORT int pthread_setspecific(pthread_key_t key, const void *value)
{
    ask_for_memory();
    NEXT(int, pthread_setspecific, pthread_key_t, const void *);
    return real(key, value);
}

EXPORT int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    ask_for_memory();
    NEXT(int, pthread_mutex_lock, pthread_mutex_t *);
    return real(mutex);
}

EXPORT int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    ask_for_memory();
    NEXT(int, pthread_mutex_unlock, pthread_mutex_t *);
    return real(mutex);
}

int __register_atfork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void),
                      void *object);
EXPORT int __register_atfork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void),
                             void *object)
{
    ask_for_memory();
    NEXT(int, __register_atfork, void (*)(void), void (*)(void), void (*)(void), void *);
    return real(before, in_parent, in_child, object);
}

EXPORT int sigaction(int number, const struct sigaction *action, struct sigaction *before)
{
    ask_for_memory();
    NEXT(int, sigaction, int, const struct sigaction *, struct sigaction *);
    return real(number, action, before);
}

EXPORT int sigemptyset(sigset_t *set)
{
    ask_for_memory();
    return sigfillset(set) == 0 ? sigdelset(set, SIGTERM) : -1;
}

/* The kernel's calls by the C library's names. */

EXPORT void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    ask_for_memory();
    return (void *)syscall(SYS_mmap, at, size, protection, flags, fd, offset);
}

EXPORT int munmap(void *start, size_t size)
{
    ask_for_memory();
    return (int)syscall(SYS_munmap, start, size);
}

EXPORT int mprotect(void *start, size_t size, int protection)
{
    ask_for_memory();
    return (int)syscall(SYS_mprotect, start, size, protection);
}

EXPORT int madvise(void *start, size_t size, int advice)
{
    ask_for_memory();
    return (int)syscall(SYS_madvise, start, size, advice);
}

EXPORT void *mremap(void *start, size_t old_size, size_t size, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    void *target = va_arg(rest, void *);
    va_end(rest);
    ask_for_memory();
    return (void *)syscall(SYS_mremap, start, old_size, size, flags, target);
}

EXPORT int open(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    int mode = va_arg(rest, int);
    va_end(rest);
    ask_for_memory();
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

EXPORT ssize_t read(int fd, void *out, size_t size)
{
    ask_for_memory();
    return syscall(SYS_read, fd, out, size);
}

EXPORT ssize_t write(int fd, const void *words, size_t size)
{
    ask_for_memory();
    return syscall(SYS_write, fd, words, size);
}

EXPORT void abort(void)
{
    ask_for_memory();
    _exit(134);
}

/* What is written into streams. */

EXPORT int fprintf(FILE *stream, const char *format, ...)
{
    va_list rest;
    ask_for_memory();
    va_start(rest, format);
    int result = vfprintf(stream, format, rest);
    va_end(rest);
    return result;
}

int __fprintf_chk(FILE *stream, int level, const char *format, ...);
EXPORT int __fprintf_chk(FILE *stream, int level, const char *format, ...)
{
    va_list rest;
    (void)level;
    ask_for_memory();
    va_start(rest, format);
    int result = vfprintf(stream, format, rest);
    va_end(rest);
    return result;
}

EXPORT size_t fwrite(const void *words, size_t size, size_t count, FILE *stream)
{
    ask_for_memory();
    NEXT(size_t, fwrite, const void *, size_t, size_t, FILE *);
    return real(words, size, count, stream);
}

EXPORT int ferror(FILE *stream)
{
    ask_for_memory();
    NEXT(int, ferror, FILE *);
    return real(stream);
}

/* What compilers call by themselves. */

EXPORT void *memcpy(void *restrict to, const void *restrict from, size_t size)
{
    ask_for_memory();
    for (size_t i = 0; i < size; i++)
        ((volatile char *)to)[i] = ((const char *)from)[i];
    return to;
}

EXPORT void *memmove(void *to, const void *from, size_t size)
{
    ask_for_memory();
    bool is_upwards = (uintptr_t)to < (uintptr_t)from;
    for (size_t i = 0; i < size; i++) {
        size_t at = is_upwards ? i : size - 1 - i;
        ((volatile char *)to)[at] = ((const char *)from)[at];
    }
    return to;
}

EXPORT void *memset(void *to, int value, size_t size)
{
    ask_for_memory();
    for (size_t i = 0; i < size; i++)
        ((volatile char *)to)[i] = (char)value;
    return to;
}

EXPORT int memcmp(const void *left, const void *right, size_t size)
{
    ask_for_memory();
    for (size_t i = 0; i < size; i++) {
        int difference = ((const volatile unsigned char *)left)[i] -
                         ((const unsigned char *)right)[i];
        if (difference != 0)
            return difference;
    }
    return 0;
}

EXPORT size_t strlen(const char *words)
{
    ask_for_memory();
    size_t length = 0;
    while (((const volatile char *)words)[length] != '\0')
        length++;
    return length;
}

EXPORT int strcmp(const char *left, const char *right)
{
    ask_for_memory();
    for (; *(const volatile char *)left != '\0' && *left == *right; left++)
        right++;
    return (unsigned char)*left - (unsigned char)*right;
}
