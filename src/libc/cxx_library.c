/*
 * cxx_library.c: finds a C++ library that may have come long after this one, and may not be
 * global: a C program, Python or a Java runtime opens a C++ plug-in with RTLD_LOCAL.
 *
 * The search is the loader's own for the caller: all global objects, then the object that the
 * caller's code is in, opened once more, and what it depends on, so that two C++ libraries in one
 * process each serve those that were bound to them. Code that was made at run time is in no object:
 * the usual libraries by their names. Nothing is kept from one call to the next, since a plug-in
 * may take its library along when it is closed.
 *
 * A static program has no loader to ask, and a program with the C++ library inside may lack the
 * operators, as ours came first. There the parts that the linker saw are used.
 *
 * The loader may ask the heap for some hundred bytes here, in the rarer searches. Without them it
 * finds nothing.
 */
#define _GNU_SOURCE

#include "libc/cxx_library.h"

#include <dlfcn.h>
#include <link.h>

#define GET_NEW_HANDLER "_ZSt15get_new_handlerv"

/* Weak: a static program that has no use for the loader is not to have it for our sake, and not
 * every C library has the first. */
extern int object_and_map_of(const void *address, Dl_info *out, void **map,
                             int what) __asm__("dladdr1") __attribute__((weak));
extern int object_of(const void *address, Dl_info *out) __asm__("dladdr") __attribute__((weak));
extern int object_close(void *object) __asm__("dlclose") __attribute__((weak));
extern void *object_symbol(void *object, const char *name) __asm__("dlsym") __attribute__((weak));

/* What the linker saw: std::get_new_handler; the exception's making, type and end. */
extern cxx_new_handler _ZSt15get_new_handlerv(void) __attribute__((weak));
extern void *__cxa_allocate_exception(size_t bytes) __attribute__((weak));
extern NORETURN void __cxa_throw(void *exception, const void *type, void (*destroy)(void *))
    __attribute__((weak));
extern struct virtuals {
    ptrdiff_t to_top;
    const void *type;
    const void *functions[]; /* what an object's first word points to */
} _ZTVSt9bad_alloc __attribute__((weak));
extern const void *_ZTISt9bad_alloc __attribute__((weak));
extern void _ZNSt9bad_allocD1Ev(void *exception) __attribute__((weak));

/* The path that the loader knows an object by; NULL for the program itself. False: there is none.
 */
static bool path_of(const void *address, const char **path)
{
    enum { WITH_MAP = 2 }; /* RTLD_DL_LINKMAP */
    Dl_info info;
    void *map = NULL;
    if (object_and_map_of == NULL) {
        if (object_of(address, &info) == 0)
            return false;
        *path = info.dli_fname;
        return true;
    }
    if (object_and_map_of(address, &info, &map, WITH_MAP) == 0 || map == NULL)
        return false;
    const char *name = ((const struct link_map *)map)->l_name;
    *path = name[0] != '\0' ? name : NULL;
    return true;
}

/* Opens an object that is there already. dlopen is looked up: linkers warn of the mere name in a
 * static program, which has none to find. */
static void *open_loaded(const char *path)
{
    void *(*open)(const char *path, int mode);
    *(void **)(void *)&open = object_symbol(RTLD_DEFAULT, "dlopen");
    return open != NULL ? open(path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
}

/* The object that has the address in it, if it is there already. To be closed. */
static void *open_around(const void *address)
{
    const char *path;
    return path_of(address, &path) ? open_loaded(path) : NULL;
}

static const void *base_of(const void *address)
{
    Dl_info info;
    return object_of(address, &info) != 0 ? info.dli_fbase : NULL;
}

/* The operator of the object that defines the handler. NULL: it has none, or the loader no memory.
 */
static void *form_beside(const void *handler, const char *name)
{
    void *library = open_around(handler);
    if (library == NULL)
        return NULL;
    void *form = object_symbol(library, name);
    object_close(library);
    return form;
}

/* The handler in a scope, and the operator of the same object, which is not ours. The first search
 * needs no memory; where ours comes before the library's own, the library is asked by itself. */
static bool find_in(void *scope, void *behind_ours, const char *name, struct cxx_library *out)
{
    void *handler = object_symbol(scope, GET_NEW_HANDLER);
    if (handler == NULL)
        return false;
    const void *base = base_of(handler);
    void *form = object_symbol(behind_ours, name);
    if (form == NULL || base_of(form) != base)
        form = form_beside(handler, name);
    if (form == NULL || base_of(form) != base)
        return false;
    *(void **)(void *)&out->handler = handler;
    *(void **)(void *)&out->operator_form = form;
    return true;
}

/* The same in an object that was opened for it; NULL: it was not there. */
static bool find_in_opened(void *object, const char *name, struct cxx_library *out)
{
    bool is_found = object != NULL && find_in(object, object, name, out);
    if (object != NULL)
        object_close(object);
    return is_found;
}

bool cxx_library_find(const void *site, const char *name, struct cxx_library *out)
{
    static const char *const usual[] = {"libstdc++.so.6", "libc++abi.so.1", "libc++.so.1"};
    if (object_of == NULL || object_close == NULL || object_symbol == NULL)
        return false;
    bool is_found = find_in(RTLD_DEFAULT, RTLD_NEXT, name, out) ||
                    find_in_opened(open_around(site), name, out);
    for (size_t i = 0; i < sizeof usual / sizeof usual[0] && !is_found; i++)
        is_found = find_in_opened(open_loaded(usual[i]), name, out);
    return is_found;
}

cxx_new_handler cxx_linked_handler(void)
{
    return _ZSt15get_new_handlerv != NULL ? _ZSt15get_new_handlerv() : NULL;
}

void cxx_throw_bad_alloc(void)
{
    bool is_linked = __cxa_allocate_exception != NULL && __cxa_throw != NULL &&
                     _ZNSt9bad_allocD1Ev != NULL && &_ZTVSt9bad_alloc != NULL &&
                     &_ZTISt9bad_alloc != NULL;
    if (!is_linked)
        return;
    void *exception = __cxa_allocate_exception(sizeof(void *)); /* all that a bad_alloc is */
    *(const void **)exception = &_ZTVSt9bad_alloc.functions;
    __cxa_throw(exception, &_ZTISt9bad_alloc, _ZNSt9bad_allocD1Ev);
}
