/*
 * policy.c: the table of policies, in the order in which documents and plots list them.
 */
#include "exec/policy.h"

#include "base/text.h"

static const struct policy *const policies[] = {
    &policy_hash,  &policy_rr,      &policy_random, &policy_p2c,     &policy_p2c_occupancy,
    &policy_jsq,   &policy_jiq,     &policy_jbsq1,  &policy_jbsq2,   &policy_jbsq3,
    &policy_jbsq4, &policy_prequal, &policy_steal,  &policy_learned,
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
