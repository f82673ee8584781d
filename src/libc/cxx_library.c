/*
 * cxx_library.c: finds a C++ library that may be loaded long after this one, and may not be global:
 * a C program, Python or a Java runtime opens a C++ plug-in with RTLD_LOCAL.
 *
 * The search follows the loader's order for the caller: all global objects, then the object that
 * contains the caller's code, opened once more, and its dependencies. So each of two C++ libraries
 * in one process serves the code bound to it. Code generated at run time is in no object; for it
 * the search tries the usual libraries by name. No result is kept: closing a plug-in may unload its
 * library.
 *
 * A static program has no loader. A program that links the C++ library statically may lack the
 * operators, since ours came first. In both, the symbols that the linker resolved are used.
 *
 * The loader may allocate a few hundred bytes in the rarer searches. Without memory they find
 * nothing.
 */
#define _GNU_SOURCE

#include "libc/cxx_library.h"

#include <dlfcn.h>
#include <link.h>

#define GET_NEW_HANDLER "_ZSt15get_new_handlerv"

/* Weak: a static program that does not need the loader must not link it because of us, and not
 * every C library has dladdr1. */
extern int object_and_map_of(const void *address, Dl_info *out, void **map,
                             int what) __asm__("dladdr1") __attribute__((weak));
extern int object_of(const void *address, Dl_info *out) __asm__("dladdr") __attribute__((weak));
extern int object_close(void *object) __asm__("dlclose") __attribute__((weak));
extern void *object_symbol(void *object, const char *name) __asm__("dlsym") __attribute__((weak));

/* Resolved by the linker: std::get_new_handler, and what throwing std::bad_alloc needs. */
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

/* The loader's path of the object that contains `address`; NULL for the program itself. False:
 * none. */
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

/* Opens an object that is already loaded. Looks dlopen up by name: linkers warn about a direct
 * reference in a static program, where the look-up finds nothing. */
static void *open_loaded(const char *path)
{
    void *(*open)(const char *path, int mode);
    *(void **)(void *)&open = object_symbol(RTLD_DEFAULT, "dlopen");
    return open != NULL ? open(path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
}

/* Opens the loaded object that contains the address. NULL: none. The caller closes it. */
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

/* The operator of the object that defines the handler. NULL: the object has none, or the loader has
 * no memory. */
static void *form_of_object(const void *handler, const char *name)
{
    void *library = open_around(handler);
    if (library == NULL)
        return NULL;
    void *form = object_symbol(library, name);
    object_close(library);
    return form;
}

/* Finds the handler in `scope`, and the operator of the handler's object, not ours. The first
 * search needs no memory. Where ours precedes the library's, form_of_object() asks the library
 * itself. */
static bool find_in(void *scope, void *behind_ours, const char *name, struct cxx_library *out)
{
    void *handler = object_symbol(scope, GET_NEW_HANDLER);
    if (handler == NULL)
        return false;
    const void *base = base_of(handler);
    void *form = object_symbol(behind_ours, name);
    if (form == NULL || base_of(form) != base)
        form = form_of_object(handler, name);
    if (form == NULL || base_of(form) != base)
        return false;
    *(void **)(void *)&out->handler = handler;
    *(void **)(void *)&out->operator_form = form;
    return true;
}

/* find_in() in an opened object, which this closes. NULL: the object was not loaded. */
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
    void *exception = __cxa_allocate_exception(sizeof(void *)); /* a bad_alloc is one pointer */
    *(const void **)exception = &_ZTVSt9bad_alloc.functions;
    __cxa_throw(exception, &_ZTISt9bad_alloc, _ZNSt9bad_allocD1Ev);
}
