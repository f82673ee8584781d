/*
 * traffic.c: distributions by inverting them.
 *
 * bimodal: 99.5 % short, 0.5 % 500 times as long. heavy: bounded Pareto, exponent 1.5, the largest
 * 10,000 times the least. Bursts: a Poisson stream whose rate is 1.8 times the mean for a while and
 * 0.2 times for a while, both exponential with a mean of 100 interarrival times.
 */
#include "traffic.h"

#include <math.h>
#include <stdlib.h>

#include "exec/policy_parts.h"

const struct traffic_options traffic_usual = {.service = SERVICE_EXPONENTIAL,
                                              .service_ns = 1000,
                                              .classes = 4,
                                              .class_skew = 1,
                                              .keys = 1024,
                                              .hold_ns = 20000,
                                              .remote = 0.5,
                                              .seed = 1};

static const double long_share = 0.005, long_ratio = 500;
static const double pareto_exponent = 1.5, pareto_reach = 10000;
static const double burst_rate = 1.8, burst_tasks = 100;

/* Above 0 and below 1. */
static double uniform(uint64_t *stream)
{
    return ((double)(policy_draw(stream) >> 12) + 0.5) * 0x1p-52;
}

static double exponential(uint64_t *stream, double mean)
{
    return -log(uniform(stream)) * mean;
}

/* The mean of x^power for a bounded Pareto variable whose least value is 1. */
static double pareto_moment(double power)
{
    double a = pareto_exponent;
    double norm = a / (1 - pow(pareto_reach, -a));
    return norm * (1 - pow(pareto_reach, power - a)) / (a - power);
}

static double bimodal_mean(void)
{
    return 1 - long_share + long_share * long_ratio;
}

double traffic_second_moment(enum service_kind kind)
{
    switch (kind) {
    case SERVICE_FIXED: return 1;
    case SERVICE_EXPONENTIAL: return 2;
    case SERVICE_BIMODAL:
        return (1 - long_share + long_share * long_ratio * long_ratio) /
               (bimodal_mean() * bimodal_mean());
    default: return pareto_moment(2) / (pareto_moment(1) * pareto_moment(1));
    }
}

static double draw_service(struct traffic *traffic)
{
    double mean = traffic->options.service_ns, u = uniform(&traffic->services);
    switch (traffic->options.service) {
    case SERVICE_FIXED: return mean;
    case SERVICE_EXPONENTIAL: return -log(u) * mean;
    case SERVICE_BIMODAL: return mean / bimodal_mean() * (u < long_share ? long_ratio : 1);
    default: {
        double reach = 1 - pow(pareto_reach, -pareto_exponent);
        return mean / pareto_moment(1) * pow(1 - u * reach, -1 / pareto_exponent);
    }
    }
}

/* Cumulative shares of Zipf's law. */
static void zipf(double *below, unsigned count, double exponent)
{
    double sum = 0;
    for (unsigned i = 0; i < count; i++)
        below[i] = sum += pow(i + 1, -exponent);
    for (unsigned i = 0; i < count; i++)
        below[i] /= sum;
}

static unsigned draw_index(const double *below, unsigned count, double u)
{
    unsigned low = 0, high = count - 1;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        if (below[middle] > u)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

bool traffic_start(struct traffic *traffic, const struct traffic_options *options)
{
    *traffic = (struct traffic){.options = *options, .phase_end_ns = 0, .is_burst = true};
    uint64_t seed = policy_mix(options->seed ^ 0x63616C6D);
    traffic->arrivals = policy_draw(&seed);
    traffic->services = policy_draw(&seed);
    traffic->classes = policy_draw(&seed);
    traffic->keys = policy_draw(&seed);
    traffic->holds = policy_draw(&seed);
    zipf(traffic->class_below, options->classes, options->class_skew);
    if (options->key_skew > 0) {
        traffic->key_below = malloc(options->keys * sizeof(double));
        if (traffic->key_below == NULL)
            return false;
        zipf(traffic->key_below, options->keys, options->key_skew);
    }
    return true;
}

void traffic_stop(struct traffic *traffic)
{
    free(traffic->key_below);
    traffic->key_below = NULL;
}

static void advance(struct traffic *traffic)
{
    double gap = exponential(&traffic->arrivals, 1); /* in mean interarrival times at rate 1 */
    double mean = 1 / traffic->options.rate;
    if (!traffic->options.is_bursty) {
        traffic->now_ns += gap * mean;
        return;
    }
    for (;;) {
        double rate = traffic->is_burst ? burst_rate : 2 - burst_rate;
        double at = traffic->now_ns + gap * mean / rate;
        if (at <= traffic->phase_end_ns) {
            traffic->now_ns = at;
            return;
        }
        /* What is left of the gap passes at the other rate. */
        gap -= (traffic->phase_end_ns - traffic->now_ns) * rate / mean;
        traffic->now_ns = traffic->phase_end_ns;
        traffic->is_burst = !traffic->is_burst;
        traffic->phase_end_ns += exponential(&traffic->arrivals, burst_tasks * mean);
    }
}

void traffic_next(struct traffic *traffic, struct traffic_task *task)
{
    const struct traffic_options *options = &traffic->options;
    if (options->trace != NULL) {
        *task = options->trace[traffic->traced++];
        return;
    }
    advance(traffic);
    task->hold_ns = -1;
    task->arrival_ns = traffic->now_ns;
    task->service_ns = draw_service(traffic);
    task->class = WATCH_CLASSES;
    if (options->classes > 0)
        task->class = draw_index(traffic->class_below, options->classes,
                                 uniform(&traffic->classes));
    double u = uniform(&traffic->keys);
    task->key = traffic->key_below != NULL ? draw_index(traffic->key_below, options->keys, u)
                                           : (uint64_t)(u * options->keys);
}

double traffic_hold(struct traffic *traffic, bool *is_remote)
{
    *is_remote = uniform(&traffic->holds) < traffic->options.remote;
    return exponential(&traffic->holds, traffic->options.hold_ns);
}
