/*
 * policy.c: the table of policies, in the order in which documents and plots list them.
 */
#include "exec/policy.h"

#include "base/text.h"

static const struct policy *const policies[] = {
    &policy_steal, &policy_jsq, &policy_jbsq1, &policy_jbsq2, &policy_hash, &policy_affine,
};

const struct policy *policy_find(const char *name)
{
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++)
        if (text_is_same(policies[i]->name, name))
            return policies[i];
    return NULL;
}

const char *policy_name(unsigned index)
{
    return index < sizeof policies / sizeof policies[0] ? policies[index]->name : NULL;
}
