/* wrapper_support.h: what tests share of site/wrapper.c. */
#ifndef CALM_TESTS_UNIT_SITE_WRAPPER_SUPPORT_H
#define CALM_TESTS_UNIT_SITE_WRAPPER_SUPPORT_H

#include "../heap_support.h"

extern "C" {
#include "site/wrapper.h"
}

namespace calm_test
{

inline enum wrapper_state state_of(const void *site)
{
    struct Wanted {
        uintptr_t site;
        enum wrapper_state state;
    } wanted = {reinterpret_cast<uintptr_t>(site), WRAPPER_NO};
    wrapper_visit(
        [](const struct wrapper_fact *fact, void *context) {
            auto *in = static_cast<Wanted *>(context);
            if (fact->site == in->site)
                in->state = fact->state;
        },
        &wanted);
    return wanted.state;
}

} // namespace calm_test

#endif
