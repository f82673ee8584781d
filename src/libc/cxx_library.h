/*
 * cxx_library.h: the C++ library of the code that asked, found when it is needed.
 */
#ifndef CALM_LIBC_CXX_LIBRARY_H
#define CALM_LIBC_CXX_LIBRARY_H

#include "base/attr.h"

typedef void (*cxx_new_handler)(void);
typedef void (*cxx_function)(void);

struct cxx_library {
    cxx_new_handler (*handler)(void); /* std::get_new_handler               */
    cxx_function operator_form;       /* its own operator, of the name asked */
};

/*
 * Finds the C++ library that the code at `site` is linked with, and that library's own definition
 * of the operator `name`. False: there is none, none can be seen from here, or there is no memory
 * to look. Nothing that is found outlives the caller's use of it: the library may be closed later.
 */
HIDDEN bool cxx_library_find(const void *site, const char *name, struct cxx_library *out);

/*
 * Throws std::bad_alloc by what was linked into the program itself (Itanium C++ ABI, exception
 * handling). Returns where nothing was.
 */
HIDDEN void cxx_throw_bad_alloc(void);

/* The new-handler of what was linked into the program itself; NULL: none is set, or no library. */
HIDDEN cxx_new_handler cxx_linked_handler(void);

#endif
