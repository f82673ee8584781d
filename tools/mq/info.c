/*
 * info.c: what INFO says: the server, and a line for each core with the occupancy of its pool.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "server.h"

struct text {
    char *start;
    size_t length, capacity;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *text, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    int more = vsnprintf(text->start + text->length, text->capacity - text->length, format, values);
    va_end(values);
    text->length += (size_t)more;
    if (text->length >= text->capacity)
        text->length = text->capacity - 1; /* cut */
}

uint32_t blocks_in(size_t bytes)
{
    static const size_t block_bytes[] = {QUEUE_BLOCK_BYTES};
    static const uint32_t percent[] = {100};
    struct calm_pool_limits limits;
    struct calm_pool_config config = {
        .block_bytes = block_bytes, .percent = percent, .classes = 1, .bytes = bytes};
    return calm_pool_bound(&config, &limits) == 0 ? limits.blocks[0] : 0;
}

static void add_core(struct text *text, struct core *core, uint32_t blocks)
{
    struct shard *shard = &core->shard;
    struct calm_exec_core_stats stats;
    uint32_t free_blocks = calm_pool_watch_free(calm_pool_watch(shard->queues.pool), 0);
    calm_exec_core_stats_read(core->server->exec, core->number, &stats);
    add(text,
        "core%u:blocks=%u,free=%u,used_percent=%.1f,queues=%llu,items=%llu,open_jobs=%llu,"
        "waiting=%llu,clients=%llu,requests=%llu,refused=%llu,expired=%llu,tasks=%llu,sleeps=%llu,"
        "cpu=%u,pinned=%d\r\n",
        core->number, blocks, free_blocks, 100.0 * (blocks - free_blocks) / blocks,
        (unsigned long long)shard->keys, (unsigned long long)shard->items,
        (unsigned long long)shard->open_jobs, (unsigned long long)shard->waiters,
        (unsigned long long)core->clients, (unsigned long long)shard->requests,
        (unsigned long long)shard->refused, (unsigned long long)core->expired,
        (unsigned long long)stats.done, (unsigned long long)stats.sleeps, stats.cpu,
        stats.is_pinned);
}

size_t info_write(void *context, char *to, size_t bytes)
{
    struct server *server = context;
    struct text text = {.start = to, .capacity = bytes};
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t free_bytes = 0, redelivered = 0;
    uint32_t cores = server->options.cores;
    uint32_t blocks = blocks_in(server->options.memory_bytes / cores);
    for (uint32_t core = 0; core < cores; core++) {
        free_bytes += calm_pool_watch_bytes(calm_pool_watch(server->cores[core].shard.queues.pool));
        redelivered += server->cores[core].shard.redelivered;
    }
    uint64_t all_bytes = (uint64_t)blocks * QUEUE_BLOCK_BYTES * cores;
    add(&text,
        "# Server\r\nserver:calmq\r\nredis_version:" REDIS_VERSION
        "\r\nredis_mode:standalone\r\nprocess_id:%d\r\ntcp_port:%u\r\nloop:%s\r\ncores:%u\r\n"
        "uptime_in_seconds:%llu\r\n",
        getpid(), server->port, server->loop->name, cores,
        (unsigned long long)((uint64_t)now.tv_sec - server->started_ns / 1000000000));
    add(&text,
        "# Clients\r\nconnected_clients:%llu\r\nmaxclients:%u\r\nrejected_connections:%llu\r\n",
        (unsigned long long)server->clients, server->options.connections,
        (unsigned long long)server->turned_away);
    add(&text, "# Memory\r\nmaxmemory:%zu\r\nqueue_bytes:%llu\r\nqueue_bytes_used:%llu\r\n",
        server->options.memory_bytes, (unsigned long long)all_bytes,
        (unsigned long long)(all_bytes - free_bytes));
    add(&text, "# Jobs\r\nredelivered_jobs:%llu\r\n", (unsigned long long)redelivered);
    add(&text, "# Cores\r\n");
    for (uint32_t core = 0; core < cores; core++)
        add_core(&text, &server->cores[core], blocks);
    return text.length;
}
