/*
 * jobs_test.cpp: open jobs in the blocks of a pool, and the order in which their time ends.
 */
#include <gtest/gtest.h>

#include <string>
#include <vector>

extern "C" {
#include "jobs.h"
}

namespace
{

word word_of(const std::string &text)
{
    return {text.data(), text.size()};
}

struct Jobs {
    explicit Jobs(size_t bytes) : buckets(64)
    {
        const size_t block_bytes[] = {QUEUE_BLOCK_BYTES};
        const uint32_t percent[] = {100};
        EXPECT_EQ(calm_pool_init(&queues.pool, block_bytes, 1, percent, bytes), 0);
        queues.buckets = buckets.data();
        queues.bucket_mask = buckets.size() - 1;
        whole = free_blocks();
    }
    Jobs(const Jobs &) = delete;
    Jobs &operator=(const Jobs &) = delete;
    ~Jobs()
    {
        calm_pool_destroy(queues.pool);
    }

    uint32_t free_blocks()
    {
        return calm_pool_watch_free(calm_pool_watch(queues.pool), 0);
    }

    struct queue *get(const std::string &id)
    {
        return queues_get(&queues, queue_hash(queues.seed, word_of(id)), word_of(id));
    }

    struct queue *open(const std::string &id, const std::string &key, const std::string &payload)
    {
        struct queue *queue = get(id);
        if (queue != nullptr && job_open(&queues, queue, word_of(key), word_of(payload)))
            return queue;
        if (queue != nullptr)
            queues_drop_if_idle(&queues, queue);
        return nullptr;
    }

    void close(struct queue *queue)
    {
        job_close(&queues, queue);
        queues_drop_if_idle(&queues, queue);
    }

    /* The ids of those whose time is over, which then wait in their queues again. */
    std::vector<std::string> end_until(uint64_t now_ns)
    {
        std::vector<std::string> ids;
        struct job *job;
        while ((job = jobs_first(&queues)) != nullptr && job->due_ns <= now_ns) {
            ids.emplace_back(job->id->key, job->id->key_bytes);
            job_put_back(&queues, job);
        }
        return ids;
    }

    std::vector<struct queue *> buckets;
    struct queues queues = {};
    uint32_t whole;
};

std::string payload_of(const struct job *job)
{
    std::string all(job->payload_bytes, '?');
    job_copy(job, all.data());
    return all;
}

TEST(Jobs, AJobHasItsQueueAndItsPayloadWhateverTheirSizes)
{
    Jobs jobs(1 << 20);
    for (size_t key_bytes : {0, 1, 300, (int)QUEUE_KEY_MAX})
        for (size_t blocks = 0; blocks < 4; blocks++)
            for (size_t around = 0; around < 3; around++) {
                size_t edge = JOB_ROOM - key_bytes + blocks * QUEUE_SEGMENT_BYTES;
                std::string key(key_bytes, 'k'), payload;
                for (size_t i = 0; i < edge - 1 + around; i++)
                    payload += static_cast<char>('a' + i % 26);
                uint32_t before = jobs.free_blocks();
                struct queue *queue = jobs.open("id", key, payload);
                ASSERT_NE(queue, nullptr);
                word found = job_key(queue->job);
                EXPECT_EQ(std::string(found.start, found.bytes), key);
                EXPECT_EQ(payload_of(queue->job), payload);
                EXPECT_EQ(before - jobs.free_blocks(), job_blocks(key.size(), payload.size()));
                EXPECT_EQ(jobs.queues.job_blocks, 2 + blocks + (around == 2));
                jobs.close(queue);
                EXPECT_EQ(jobs.free_blocks(), jobs.whole);
            }
    struct queue *empty = jobs.open("id", "", "");
    EXPECT_EQ(payload_of(empty->job), "");
    jobs.close(empty);
}

TEST(Jobs, ARefusedJobLeavesNothingBehind)
{
    Jobs jobs(64 << 10);
    EXPECT_EQ(jobs.open("large", "q", std::string(64 << 10, 'x')), nullptr);
    EXPECT_EQ(jobs.free_blocks(), jobs.whole);
    EXPECT_EQ(jobs.queues.open_jobs, 0u);
    EXPECT_EQ(jobs.queues.job_blocks, 0u);
    unsigned count = 0;
    while (jobs.open("id" + std::to_string(count), "q", std::string(1000, 'x')) != nullptr)
        count++;
    EXPECT_EQ(count, jobs.whole / 4);
    EXPECT_EQ(jobs.queues.open_jobs, count);
}

TEST(Jobs, TheFirstIsAlwaysTheOneWhoseTimeEndsFirst)
{
    Jobs jobs(1 << 20);
    std::vector<struct queue *> ids;
    for (unsigned i = 0; i < 6; i++)
        ids.push_back(jobs.open("id" + std::to_string(i), "q", "p"));
    EXPECT_EQ(jobs_first(&jobs.queues), nullptr);
    for (unsigned i = 0; i < 5; i++)
        job_take(&jobs.queues, ids[i], 10 + i);
    job_take(&jobs.queues, ids[1], 20); /* once more */
    jobs.close(ids[3]);                 /* answered  */
    EXPECT_EQ(jobs.end_until(9), (std::vector<std::string>{}));
    EXPECT_EQ(jobs.end_until(12), (std::vector<std::string>{"id0", "id2"}));
    job_take(&jobs.queues, ids[0], 21);
    jobs.close(ids[0]); /* the last of the list  */
    jobs.close(ids[4]); /* the first of the list */
    EXPECT_EQ(jobs.end_until(100), (std::vector<std::string>{"id1"}));
    EXPECT_EQ(jobs_first(&jobs.queues), nullptr);
    EXPECT_EQ(jobs.queues.last_taken, nullptr);
    for (unsigned i : {1, 2, 5})
        jobs.close(ids[i]);
    EXPECT_EQ(jobs.queues.open_jobs, 0u);
    EXPECT_EQ(jobs.queues.job_blocks, 0u);
    EXPECT_EQ(jobs.free_blocks(), jobs.whole);
}

} // namespace
