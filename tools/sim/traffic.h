/*
 * traffic.h: when tasks come, how long they run, which blocks they want, whose they are.
 *
 * Every kind of number has a random stream of its own, and each task takes one number of each. So
 * two policies, or two loads, meet the same tasks for the same seed.
 */
#ifndef CALM_SIM_TRAFFIC_H
#define CALM_SIM_TRAFFIC_H

#include <stdbool.h>
#include <stdint.h>

#include "exec/watch.h"

enum service_kind { SERVICE_FIXED, SERVICE_EXPONENTIAL, SERVICE_BIMODAL, SERVICE_HEAVY };

enum { TRAFFIC_KEYS_MAX = 65536 };

struct traffic_options {
    enum service_kind service;
    double service_ns; /* mean, on a core of ordinary speed */
    double rate;       /* tasks a ns                        */
    bool is_bursty;
    unsigned classes;  /* 0: tasks want no blocks */
    double class_skew; /* Zipf's exponent        */
    unsigned keys;
    double key_skew;
    double hold_ns; /* mean time that a block is kept after its task */
    double remote;  /* share of blocks that another core frees       */
    uint64_t seed;
    const struct traffic_task *trace; /* NULL, or recorded tasks that come instead of drawn ones */
};

/* What is drawn where nobody says otherwise. */
extern const struct traffic_options traffic_usual;

struct traffic {
    struct traffic_options options;
    uint64_t arrivals, services, classes, keys, holds; /* streams */
    double now_ns;
    double phase_end_ns; /* of the burst or the lull */
    bool is_burst;
    double class_below[WATCH_CLASSES]; /* cumulative */
    double *key_below;                 /* cumulative; NULL when all are alike */
    uint64_t traced;                   /* tasks of the trace that came */
};

struct traffic_task {
    double arrival_ns;
    double service_ns;
    uint64_t key;
    uint32_t class; /* POLICY_NO_CLASS: wants no block */
    double hold_ns; /* how long its block is kept; below 0: traffic_hold() says */
};

/* False when there is no memory. */
bool traffic_start(struct traffic *traffic, const struct traffic_options *options);
void traffic_stop(struct traffic *traffic);

void traffic_next(struct traffic *traffic, struct traffic_task *task);

/* How long the next block is kept, and whether another core frees it. */
double traffic_hold(struct traffic *traffic, bool *is_remote);

/* Ratio of second moment to squared mean of service times: 1 for fixed, 2 for exponential. */
double traffic_second_moment(enum service_kind kind);

#endif
