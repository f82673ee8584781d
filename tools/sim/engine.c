/*
 * engine.c: events in the order of their time, and what each does.
 *
 * Five sources: the next arrival, a heap with the end of each core's running task, a heap with
 * releases of kept blocks, and, when there is a delay, two queues of deliveries and of notices. The
 * lines that the dispatcher sees are the cores' own when there is no delay. Else they follow by
 * notices, but for the count of tasks, to which the dispatcher adds what it submits at once.
 */
#include "engine.h"

#include <stdlib.h>

#include "exec/policy_parts.h"
#include "parts.h"

static void begin_next(struct engine *engine, uint32_t index);
static bool try_steal(struct engine *engine, uint32_t thief);

/* --- tasks and queues --- */

static void queue_push(struct engine_parts *parts, struct queue *queue, uint32_t index)
{
    parts->tasks[index].next = NO_TASK;
    if (queue->count++ == 0)
        queue->head = index;
    else
        parts->tasks[queue->tail].next = index;
    queue->tail = index;
}

static uint32_t queue_pop(struct engine_parts *parts, struct queue *queue)
{
    uint32_t index = queue->head;
    queue->head = parts->tasks[index].next;
    queue->count--;
    return index;
}

static void count_system(struct engine *engine, int change)
{
    struct engine_parts *parts = engine->parts;
    double until = engine->ended_ns > 0 ? engine->ended_ns : parts->now_ns;
    if (until > parts->summed_ns) {
        engine->task_ns += (double)engine->in_system * (until - parts->summed_ns);
        parts->summed_ns = until;
    }
    engine->in_system += (uint64_t)change;
}

static uint32_t task_new(struct engine *engine)
{
    struct engine_parts *parts = engine->parts;
    uint32_t index = parts->unused_task;
    if (index != NO_TASK)
        parts->unused_task = parts->tasks[index].next;
    else if (engine->in_system < parts->task_capacity)
        index = (uint32_t)engine->in_system;
    return index;
}

static void task_leave(struct engine *engine, uint32_t index, uint64_t *count)
{
    struct engine_parts *parts = engine->parts;
    struct task *task = &parts->tasks[index];
    *count += task->is_counted;
    engine->all_left++;
    count_system(engine, -1);
    task->next = parts->unused_task;
    parts->unused_task = index;
}

/* --- what the dispatcher is told --- */

static struct policy_view view_of(const struct engine *engine)
{
    const struct engine_parts *parts = engine->parts;
    return (struct policy_view){.lines = parts->published,
                                .cores = engine->options.cores,
                                .inbox_capacity = engine->options.inbox_capacity,
                                .now_ns = (uint64_t)parts->now_ns};
}

static bool has_delay(const struct engine *engine)
{
    return engine->parts->published != engine->parts->lines;
}

/* A core's news: seen at once, or after the delay, as its line is now. */
static void tell(struct engine *engine, uint32_t core, bool has_left)
{
    struct engine_parts *parts = engine->parts;
    if (has_delay(engine))
        *(struct notice *)ring_push(&parts->notices, sizeof(struct notice)) = (struct notice){
            .at_ns = parts->now_ns + engine->options.delay_ns,
            .core = core,
            .has_left = has_left,
            .line = parts->lines[core]};
}

static void on_notice(struct engine *engine)
{
    struct engine_parts *parts = engine->parts;
    struct notice notice = *(struct notice *)ring_first(&parts->notices, sizeof notice);
    ring_drop(&parts->notices);
    struct watch_line *line = &parts->published[notice.core];
    uint32_t submitted = watch_count(line);
    *line = notice.line;
    store(&line->count, submitted - notice.has_left, RELAXED);
}

/* --- blocks --- */

static void change_free(struct engine_parts *parts, uint32_t index, uint32_t class, int change)
{
    struct core *core = &parts->cores[index];
    core->free[class] += (uint32_t)change;
    parts->free_total[class] += (uint64_t)change;
    store(&parts->lines[index].free_blocks[class], (uint16_t)core->free[class], RELAXED);
}

/* What others freed, of all classes. */
static void take_back(struct engine_parts *parts, uint32_t index)
{
    struct core *core = &parts->cores[index];
    for (uint32_t class = 0; class < WATCH_CLASSES && core->backlog_total > 0; class ++) {
        for (; core->backlog[class] > 0; core->backlog[class]--) {
            core->backlog_total--;
            change_free(parts, index, class, 1);
        }
    }
}

static void note_stranded(struct engine *engine, const struct task *task)
{
    if (!has_blocks(engine, task->class) || !task->is_counted)
        return;
    uint64_t free = engine->parts->free_total[task->class];
    engine->counts.stranded += free > 0;
    engine->counts.stranded_share += (double)free / (double)engine->parts->block_total;
}

/* In an event of `releases`: beside a class, another core frees the block; alone, a core that was
 * idle has woken up. */
enum { REMOTE = 1 << 8, WOKEN = 1 << 9 };

static void keep_block(struct engine *engine, uint32_t index, const struct task *task)
{
    struct engine_parts *parts = engine->parts;
    bool is_remote = true;
    double hold_ns = task->hold_ns < 0 ? traffic_hold(&parts->traffic, &is_remote) : task->hold_ns;
    struct event event = {.at_ns = parts->now_ns + hold_ns,
                          .core = index,
                          .what = task->class | (is_remote ? REMOTE : 0)};
    heap_push(&parts->releases, event);
}

/* The core wakes up for what others freed while it was idle. */
static void on_woken(struct engine *engine, uint32_t index)
{
    struct core *core = &engine->parts->cores[index];
    core->is_waking = false;
    if (core->running != NO_TASK)
        return; /* a task woke it up, and it has taken back what there was */
    take_back(engine->parts, index);
    try_steal(engine, index); /* what it had no block for */
}

static void on_freed(struct engine *engine, uint32_t index, uint32_t class, bool is_remote)
{
    struct engine_parts *parts = engine->parts;
    struct core *core = &parts->cores[index];
    bool is_idle = core->running == NO_TASK;
    core->in_use[class]--;
    if (!is_remote || (is_idle && engine->options.wake_ns <= 0)) {
        change_free(parts, index, class, 1);
        if (is_idle)
            try_steal(engine, index);
        return;
    }
    core->backlog[class]++;
    core->backlog_total++;
    if (is_idle && !core->is_waking) {
        core->is_waking = true;
        heap_push(&parts->releases, (struct event){.at_ns = parts->now_ns + engine->options.wake_ns,
                                                   .core = index,
                                                   .what = WOKEN});
    }
}

static void on_release(struct engine *engine)
{
    struct event event = heap_pop(&engine->parts->releases);
    if (event.what == WOKEN)
        on_woken(engine, event.core);
    else
        on_freed(engine, event.core, event.what & 0xFF, (event.what & REMOTE) != 0);
    tell(engine, event.core, false);
}

/* --- a core's work --- */

static void leave_core(struct engine *engine, uint32_t index, uint32_t task_index, bool has_failed)
{
    struct engine_parts *parts = engine->parts;
    struct task *task = &parts->tasks[task_index];
    watch_left(&parts->lines[index]);
    tell(engine, index, true);
    double sojourn_ns = parts->now_ns - task->arrival_ns;
    if (!has_failed && task->is_counted) {
        quantiles_add(&engine->sojourn, (uint64_t)(sojourn_ns + 0.5));
        quantiles_add(&engine->slowdown, (uint64_t)(sojourn_ns / task->service_ns * 1000 + 0.5));
        engine->done_by_core[index]++;
    }
    task_leave(engine, task_index, has_failed ? &engine->counts.failed : &engine->counts.done);
}

/* What waits longest in the core's inbox is now another task: the line says since when. */
static void inbox_has_head(struct engine_parts *parts, uint32_t index)
{
    const struct task *head = &parts->tasks[parts->cores[index].inbox.head];
    parts->has_heads |= (uint32_t)1 << head->class;
    parts->heads[head->class]++;
    watch_oldest(&parts->lines[index], (uint64_t)head->arrival_ns);
}

/* The oldest waiting task leaves the inbox. */
static uint32_t inbox_pop(struct engine_parts *parts, uint32_t index)
{
    struct queue *inbox = &parts->cores[index].inbox;
    uint32_t task_index = queue_pop(parts, inbox), class = parts->tasks[task_index].class;
    if (--parts->heads[class] == 0)
        parts->has_heads &= ~((uint32_t)1 << class);
    if (inbox->count > 0)
        inbox_has_head(parts, index);
    return task_index;
}

/* Begins the task on the core, or fails it for want of a block. */
static bool begin(struct engine *engine, uint32_t index, uint32_t task_index, double extra_ns)
{
    struct engine_parts *parts = engine->parts;
    struct core *core = &parts->cores[index];
    struct task *task = &parts->tasks[task_index];
    if (has_blocks(engine, task->class)) {
        take_back(parts, index);
        if (core->free[task->class] == 0) {
            parts->busy_until_ns[index] -= task->service_ns * core->slow_factor;
            note_stranded(engine, task);
            leave_core(engine, index, task_index, true);
            return false;
        }
        change_free(parts, index, task->class, -1);
        core->in_use[task->class]++;
    }
    core->running = task_index;
    core->begun_ns = parts->now_ns + extra_ns;
    tell(engine, index, false);
    heap_push(&parts->completions,
              (struct event){.at_ns = core->begun_ns + task->service_ns * core->slow_factor,
                             .core = index});
    return true;
}

/* What passes before a task begins on the core as it is. */
static double wake_ns(const struct engine *engine, uint32_t index)
{
    bool is_idle = (engine->parts->idle[index / 64] >> index % 64 & 1) != 0;
    return is_idle ? engine->options.wake_ns : 0;
}

static void set_idle(struct engine_parts *parts, uint32_t index, bool is_idle)
{
    uint64_t bit = (uint64_t)1 << index % 64;
    bool was_idle = (parts->idle[index / 64] & bit) != 0;
    if (is_idle == was_idle)
        return;
    parts->idle[index / 64] ^= bit;
    parts->idle_count += is_idle ? 1u : UINT32_MAX;
}

/* The core takes the oldest waiting task of another, if the policy names one that it can rob. */
static bool try_steal(struct engine *engine, uint32_t thief)
{
    struct engine_parts *parts = engine->parts;
    if (parts->policy->steal == NULL)
        return false;
    struct policy_view view = view_of(engine);
    struct loot loot = loot_of(engine, thief);
    view.has_loot = loot_is_at;
    view.loot = &loot;
    view.has_no_loot = loot_is_nowhere(&loot);
    uint32_t victim = parts->policy->steal(parts->state, &view, thief);
    if (victim == POLICY_NOBODY || parts->cores[victim].inbox.count == 0)
        return false;
    struct core *from = &parts->cores[victim], *to = &parts->cores[thief];
    uint32_t index = inbox_pop(parts, victim);
    const struct task *task = &parts->tasks[index];
    watch_left(&parts->lines[victim]);
    watch_arrived(&parts->lines[thief]);
    if (has_delay(engine)) {
        watch_left(&parts->published[victim]);
        watch_arrived(&parts->published[thief]);
    }
    parts->busy_until_ns[victim] -= task->service_ns * from->slow_factor;
    double busy_until_ns = parts->busy_until_ns[thief];
    parts->busy_until_ns[thief] = (busy_until_ns > parts->now_ns ? busy_until_ns : parts->now_ns) +
                                  task->service_ns * to->slow_factor;
    engine->counts.steals += task->is_counted;
    double extra_ns = engine->options.delay_ns + wake_ns(engine, thief);
    set_idle(parts, thief, false);
    return begin(engine, thief, index, extra_ns);
}

static void begin_next(struct engine *engine, uint32_t index)
{
    struct engine_parts *parts = engine->parts;
    struct core *core = &parts->cores[index];
    double extra_ns = wake_ns(engine, index);
    while (core->inbox.count > 0) {
        set_idle(parts, index, false);
        if (try_steal(engine, index) || begin(engine, index, inbox_pop(parts, index), extra_ns))
            return;
    }
    take_back(parts, index);
    if (try_steal(engine, index))
        return;
    set_idle(parts, index, true);
    tell(engine, index, false);
}

/* A task waits: an idle core, another one each time, looks whether it wants one. */
static void wake_thief(struct engine *engine)
{
    struct engine_parts *parts = engine->parts;
    if (parts->policy->steal == NULL || parts->idle_count == 0)
        return;
    uint32_t words = (engine->options.cores + 63) / 64;
    uint32_t from = parts->thief_from + 1 < engine->options.cores ? parts->thief_from + 1 : 0;
    uint64_t mask = UINT64_MAX << from % 64;
    for (uint32_t i = 0; i <= words; i++, mask = UINT64_MAX) {
        uint64_t word = parts->idle[(from / 64 + i) % words] & mask;
        if (word == 0)
            continue;
        parts->thief_from = (from / 64 + i) % words * 64 + bit_lowest(word);
        try_steal(engine, parts->thief_from);
        return;
    }
}

static void arrive(struct engine *engine, uint32_t index, uint32_t task_index)
{
    struct engine_parts *parts = engine->parts;
    queue_push(parts, &parts->cores[index].inbox, task_index);
    if (parts->cores[index].inbox.count == 1)
        inbox_has_head(parts, index);
    if (parts->cores[index].running == NO_TASK)
        begin_next(engine, index);
    else
        wake_thief(engine);
}

static void on_delivery(struct engine *engine)
{
    struct engine_parts *parts = engine->parts;
    struct delivery delivery = *(struct delivery *)ring_first(&parts->deliveries, sizeof delivery);
    ring_drop(&parts->deliveries);
    parts->cores[delivery.core].on_the_way--;
    arrive(engine, delivery.core, delivery.task);
}

static void on_completion(struct engine *engine)
{
    struct engine_parts *parts = engine->parts;
    struct event event = heap_pop(&parts->completions);
    struct core *core = &parts->cores[event.core];
    uint32_t index = core->running;
    struct task *task = &parts->tasks[index];
    core->running = NO_TASK;
    if (has_blocks(engine, task->class))
        keep_block(engine, event.core, task);
    watch_served(&parts->lines[event.core], (uint32_t)(parts->now_ns - core->begun_ns),
                 (uint32_t)(parts->now_ns - task->arrival_ns));
    leave_core(engine, event.core, index, false);
    begin_next(engine, event.core);
}

/* --- the dispatcher --- */

enum { DECISIONS_A_READING = 32 };

/* Asks the policy, now and then by the clock. */
static uint32_t choose(struct engine *engine, const struct policy_view *view,
                       const struct policy_task *asked)
{
    const struct engine_parts *parts = engine->parts;
    if (engine->options.clock_ns == NULL || engine->counts.decisions % DECISIONS_A_READING != 1)
        return parts->policy->choose(parts->state, view, asked);
    uint64_t from_ns = engine->options.clock_ns();
    uint32_t core = parts->policy->choose(parts->state, view, asked);
    engine->timed_ns += engine->options.clock_ns() - from_ns;
    engine->timed++;
    return core;
}

static struct policy_task asked_of(const struct engine *engine, uint32_t task_index)
{
    const struct task *task = &engine->parts->tasks[task_index];
    return (struct policy_task){
        .key = task->key,
        .class = has_blocks(engine, task->class) ? task->class : (uint32_t)POLICY_NO_CLASS};
}

/* As the executor: where the policy's core is binding and not feasible, the rule for that follows.
 */
static uint32_t decide(struct engine *engine, uint32_t task_index)
{
    const struct policy *policy = engine->parts->policy;
    struct policy_view view = view_of(engine);
    struct policy_task asked = asked_of(engine, task_index);
    uint32_t core = choose(engine, &view, &asked);
    engine->counts.decisions += engine->parts->tasks[task_index].is_counted;
    return policy->is_binding && !policy_feasible(&view, &asked, core) ? POLICY_REJECT : core;
}

static void place(struct engine *engine, uint32_t index, uint32_t task_index)
{
    struct engine_parts *parts = engine->parts;
    const struct core *core = &parts->cores[index];
    const struct task *task = &parts->tasks[task_index];
    if (watch_count(&parts->published[index]) >= engine->options.inbox_capacity) {
        task_leave(engine, task_index, &engine->counts.rejected); /* the oracle does not ask */
        return;
    }
    double from = parts->busy_until_ns[index];
    from = from > parts->now_ns ? from : parts->now_ns;
    parts->busy_until_ns[index] = from + task->service_ns * core->slow_factor;
    watch_arrived(&parts->lines[index]);
    if (!has_delay(engine)) {
        arrive(engine, index, task_index);
        return;
    }
    watch_arrived(&parts->published[index]);
    parts->cores[index].on_the_way++;
    *(struct delivery *)ring_push(&parts->deliveries, sizeof(struct delivery)) = (struct delivery){
        .at_ns = parts->now_ns + engine->options.delay_ns, .core = index, .task = task_index};
}

/* The oldest task that waits in any inbox, or in the one that the policy binds to, goes, and its
 * place is taken. */
static bool shed_for(struct engine *engine, uint32_t task_index)
{
    struct engine_parts *parts = engine->parts;
    uint32_t oldest = POLICY_NOBODY;
    struct policy_view view = view_of(engine);
    struct policy_task asked = asked_of(engine, task_index);
    uint32_t only = parts->policy->is_binding ? parts->policy->choose(parts->state, &view, &asked)
                                              : POLICY_NOBODY;
    for (uint32_t i = 0; i < engine->options.cores; i++) {
        const struct queue *inbox = &parts->cores[i].inbox;
        if ((only == POLICY_NOBODY || only == i) && inbox->count > 0 &&
            (oldest == POLICY_NOBODY ||
             parts->tasks[inbox->head].arrival_ns <
                 parts->tasks[parts->cores[oldest].inbox.head].arrival_ns))
            oldest = i;
    }
    if (oldest == POLICY_NOBODY)
        return false;
    uint32_t old = inbox_pop(parts, oldest);
    parts->busy_until_ns[oldest] -= parts->tasks[old].service_ns * parts->cores[oldest].slow_factor;
    watch_left(&parts->lines[oldest]);
    if (has_delay(engine))
        watch_left(&parts->published[oldest]);
    task_leave(engine, old, &engine->counts.shed);
    place(engine, oldest, task_index);
    return true;
}

static void settle(struct engine *engine, uint32_t task_index, uint32_t chosen)
{
    struct engine_parts *parts = engine->parts;
    struct task *task = &parts->tasks[task_index];
    if (chosen < engine->options.cores) {
        place(engine, chosen, task_index);
    } else if (chosen == POLICY_HOLD) {
        queue_push(parts, &parts->held, task_index);
    } else if (engine->options.full == FULL_WAIT) {
        task->deadline_ns = parts->now_ns + engine->options.deadline_ns;
        queue_push(parts, &parts->waiting, task_index);
    } else if (engine->options.full != FULL_SHED || !shed_for(engine, task_index)) {
        note_stranded(engine, task);
        task_leave(engine, task_index, &engine->counts.rejected);
    }
}

/* After news from cores: the oldest tasks that the dispatcher keeps get another chance, in order.
 */
static void retry(struct engine *engine)
{
    struct engine_parts *parts = engine->parts;
    while (parts->held.count > 0) {
        uint32_t chosen = decide(engine, parts->held.head);
        if (chosen == POLICY_HOLD)
            break;
        settle(engine, queue_pop(parts, &parts->held), chosen);
    }
    while (parts->waiting.count > 0) {
        uint32_t chosen = decide(engine, parts->waiting.head);
        if (chosen == POLICY_REJECT)
            break;
        settle(engine, queue_pop(parts, &parts->waiting), chosen);
    }
}

static void on_deadline(struct engine *engine)
{
    struct engine_parts *parts = engine->parts;
    uint32_t index = queue_pop(parts, &parts->waiting);
    note_stranded(engine, &parts->tasks[index]);
    task_leave(engine, index, &engine->counts.rejected);
}

static void draw_next(struct engine *engine)
{
    struct engine_parts *parts = engine->parts;
    parts->has_next = engine->all_offered < engine->options.tasks;
    if (!parts->has_next) {
        engine->ended_ns = parts->now_ns;
        return;
    }
    if (engine->all_offered == engine->options.tasks / 2)
        parts->traffic.options.service = engine->options.then;
    traffic_next(&parts->traffic, &parts->next);
}

static void on_arrival(struct engine *engine)
{
    struct engine_parts *parts = engine->parts;
    const struct engine_options *options = &engine->options;
    bool is_counted = engine->all_offered >= options->warmup;
    if (engine->all_offered == options->warmup) {
        engine->begun_ns = parts->summed_ns = parts->now_ns;
        engine->task_ns = 0;
    }
    if (++parts->since_drift == options->drift_tasks) {
        parts->since_drift = 0;
        parts->slow_from = (parts->slow_from + options->cores / 4 + 1) % options->cores;
        set_slow_cores(engine);
    }
    uint32_t index = task_new(engine);
    engine->all_offered++;
    engine->counts.offered += is_counted;
    count_system(engine, 1);
    if (index == NO_TASK) {
        count_system(engine, -1);
        engine->all_left++;
        engine->counts.rejected += is_counted;
    } else {
        const struct traffic_task *next = &parts->next;
        parts->tasks[index] = (struct task){.arrival_ns = parts->now_ns,
                                            .service_ns = next->service_ns,
                                            .key = next->key,
                                            .class = next->class,
                                            .hold_ns = next->hold_ns,
                                            .is_counted = is_counted};
        if (parts->held.count > 0)
            queue_push(parts, &parts->held, index); /* behind those before it */
        else
            settle(engine, index, decide(engine, index));
    }
    draw_next(engine);
}

/* --- time --- */

enum source { NONE, ARRIVAL, COMPLETION, FREEING, DELIVERY, NOTICE, DEADLINE };

static void look_at(bool is_there, double at_ns, enum source source, enum source *first,
                    double *first_ns)
{
    if (is_there && (*first == NONE || at_ns < *first_ns)) {
        *first = source;
        *first_ns = at_ns;
    }
}

/* What happens next; at the same time, in the order of this list. */
static enum source first_source(const struct engine_parts *parts, double *at_ns)
{
    enum source first = NONE;
    const struct heap *completions = &parts->completions, *releases = &parts->releases;
    if (completions->count > 0)
        look_at(true, completions->events[0].at_ns, COMPLETION, &first, at_ns);
    if (releases->count > 0)
        look_at(true, releases->events[0].at_ns, FREEING, &first, at_ns);
    if (parts->notices.count > 0)
        look_at(true, ((struct notice *)ring_first(&parts->notices, sizeof(struct notice)))->at_ns,
                NOTICE, &first, at_ns);
    if (parts->deliveries.count > 0)
        look_at(true,
                ((struct delivery *)ring_first(&parts->deliveries, sizeof(struct delivery)))->at_ns,
                DELIVERY, &first, at_ns);
    if (parts->waiting.count > 0)
        look_at(true, parts->tasks[parts->waiting.head].deadline_ns, DEADLINE, &first, at_ns);
    look_at(parts->has_next, parts->next.arrival_ns, ARRIVAL, &first, at_ns);
    return first;
}

bool engine_run(struct engine *engine, uint64_t events)
{
    struct engine_parts *parts = engine->parts;
    void (*const handlers[])(struct engine *) = {
        [ARRIVAL] = on_arrival,   [COMPLETION] = on_completion, [FREEING] = on_release,
        [DELIVERY] = on_delivery, [NOTICE] = on_notice,         [DEADLINE] = on_deadline,
    };
    for (; events > 0; events--) {
        double at_ns = 0;
        enum source source = first_source(parts, &at_ns);
        if (source == NONE)
            return false;
        parts->now_ns = at_ns;
        handlers[source](engine);
        bool is_news = source == NOTICE || (!has_delay(engine) && source != ARRIVAL);
        if (is_news && parts->held.count + parts->waiting.count > 0)
            retry(engine);
    }
    return true;
}

bool engine_start(struct engine *engine, const struct engine_options *options)
{
    *engine = (struct engine){.options = *options};
    struct traffic_options *traffic = &engine->options.traffic;
    double slow = options->slow_cores;
    traffic->rate = options->load * (options->cores - slow + slow / options->slow_factor) /
                    traffic->service_ns;
    if (options->blocks == 0)
        traffic->classes = 0;
    engine->parts = calloc(1, sizeof *engine->parts);
    if (engine->parts == NULL)
        return false;
    if (!parts_start(engine)) {
        engine_stop(engine);
        return false;
    }
    draw_next(engine);
    return true;
}

void engine_stop(struct engine *engine)
{
    parts_stop(engine->parts);
    free(engine->done_by_core);
}
