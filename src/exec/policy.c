/*
 * policy.c: the table of policies, in the order in which documents and plots list them.
 */
#include "exec/policy.h"

static const struct policy *const policies[] = {
    &policy_hash,  &policy_rr,      &policy_random, &policy_p2c,     &policy_p2c_occupancy,
    &policy_jsq,   &policy_jiq,     &policy_jbsq1,  &policy_jbsq2,   &policy_jbsq3,
    &policy_jbsq4, &policy_prequal, &policy_steal,  &policy_learned,
};

static bool is_same(const char *a, const char *b)
{
    while (*a != '\0' && *a == *b)
        a++, b++;
    return *a == *b;
}

const struct policy *policy_find(const char *name)
{
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++)
        if (is_same(policies[i]->name, name))
            return policies[i];
    return NULL;
}

const char *policy_name(unsigned index)
{
    return index < sizeof policies / sizeof policies[0] ? policies[index]->name : NULL;
}
