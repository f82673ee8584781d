/*
 * trace.c: reads recorded tasks.
 */
#include "trace.h"

#include <stdio.h>
#include <stdlib.h>

enum { FIELDS = 5, TASKS_FIRST = 4096 };

/* False: the line is no task, or comes before the one ahead of it. */
static bool read_task(const char *line, double not_before_ns, struct traffic_task *task)
{
    unsigned long long key;
    unsigned class;
    int end = 0;
    int count = sscanf(line, "%lf %lf %u %llu %lf %n", &task->arrival_ns, &task->service_ns, &class,
                       &key, &task->hold_ns, &end);
    task->class = class;
    task->key = key;
    return count == FIELDS && line[end] == '\0' && task->arrival_ns >= not_before_ns &&
           task->service_ns >= 0 && task->service_ns < UINT32_MAX && class <= WATCH_CLASSES &&
           task->hold_ns >= 0;
}

static struct traffic_task *read_all(FILE *file, uint64_t *count)
{
    uint64_t capacity = TASKS_FIRST;
    struct traffic_task *tasks = malloc(capacity * sizeof *tasks);
    char line[256];
    for (*count = 0; tasks != NULL && fgets(line, sizeof line, file) != NULL; ++*count) {
        if (*count == capacity) {
            capacity *= 2;
            struct traffic_task *larger = realloc(tasks, capacity * sizeof *tasks);
            if (larger == NULL)
                break;
            tasks = larger;
        }
        double not_before_ns = *count > 0 ? tasks[*count - 1].arrival_ns : 0;
        if (!read_task(line, not_before_ns, &tasks[*count]))
            break;
    }
    if (tasks != NULL && *count > 0 && feof(file))
        return tasks;
    free(tasks);
    return NULL;
}

struct traffic_task *trace_read(const char *path, uint64_t *count)
{
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return NULL;
    struct traffic_task *tasks = read_all(file, count);
    fclose(file);
    return tasks;
}
