/*
 * wait_test.cpp: who waits for items, against lists of the standard library.
 */
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

extern "C" {
#include "command.h"
}

namespace
{

enum { SESSIONS = 200, REPLY_BYTES = 4096, ROWS = 8 };
const uint64_t MS = 1000000;

std::set<struct session *> resumed;

void note(struct shard *, struct session *session)
{
    resumed.insert(session);
}

struct Waits {
    Waits()
    {
        const size_t block_bytes[] = {QUEUE_BLOCK_BYTES};
        const uint32_t percent[] = {100};
        EXPECT_EQ(calm_pool_init(&shard->queues.pool, block_bytes, 1, percent, 1 << 18), 0);
        shard->queues.buckets = buckets;
        shard->queues.bucket_mask = ROWS - 1;
        shard->rows = rows;
        shard->row_mask = ROWS - 1;
        shard->heap = heap;
        shard->host.resume = note;
        shard->cores = 1;
        for (struct session &session : sessions) {
            memory.push_back(std::make_unique<char[]>(REPLY_BYTES));
            session.reply = memory.back().get();
            session.reply_capacity = REPLY_BYTES;
        }
        resumed.clear();
    }
    Waits(const Waits &) = delete;
    Waits &operator=(const Waits &) = delete;

    ~Waits()
    {
        calm_pool_destroy(shard->queues.pool);
    }

    void begin(struct session &session, const std::vector<std::string> &keys, uint64_t ms)
    {
        std::vector<struct word> words;
        for (const std::string &key : keys)
            words.push_back({key.data(), key.size()});
        session.reply_bytes = 0;
        wait_begin(shard.get(), &session, words.data(), words.size(),
                   {ms, QUEUE_OLDEST, false, QUEUE_OLDEST});
    }

    std::unique_ptr<struct shard> shard{new struct shard()};
    struct queue *buckets[ROWS]{};
    struct waiter *rows[ROWS]{};
    struct session *heap[SESSIONS]{};
    std::vector<struct session> sessions{SESSIONS};
    std::vector<std::unique_ptr<char[]>> memory;
};

} // namespace

/* Seen to fail: with a leave_heap() that lets the last one rise only. */
TEST(Wait, TheNearestEndIsKnownAndWaitsEndThenWhoeverLeavesBetween)
{
    Waits waits;
    struct shard *shard = waits.shard.get();
    std::map<struct session *, uint64_t> ends;
    std::mt19937 random(11);
    for (unsigned turn = 0; turn < 40000; turn++) {
        struct session &session = waits.sessions[random() % SESSIONS];
        if (ends.count(&session) != 0 && random() % 2 == 0) {
            ASSERT_TRUE(session_cancel(shard, &session));
            ends.erase(&session);
        } else if (ends.count(&session) == 0) {
            uint64_t ms = random() % 4 == 0 ? 0 : random() % 5000 + 1;
            waits.begin(session, {"key" + std::to_string(random() % 20)}, ms);
            ends[&session] = ms == 0 ? UINT64_MAX : shard->now_ns + ms * MS;
        }
        shard->now_ns += random() % 20 * MS;
        resumed.clear();
        shard_sweep(shard, false);
        std::set<struct session *> expected;
        uint64_t nearest = UINT64_MAX;
        for (auto at = ends.begin(); at != ends.end();)
            if (at->second <= shard->now_ns) {
                expected.insert(at->first);
                at = ends.erase(at);
            } else
                nearest = std::min(nearest, (at++)->second);
        ASSERT_EQ(resumed, expected);
        ASSERT_EQ(shard_deadline_ns(shard), nearest);
        ASSERT_EQ(shard->waiters, ends.size());
    }
    resumed.clear();
    shard_sweep(shard, true);
    EXPECT_EQ(resumed.size(), ends.size());
    EXPECT_EQ(shard->first_waiting, nullptr);
    for (struct waiter *row : waits.rows)
        EXPECT_EQ(row, nullptr);
}

/* Seen to fail: with a leave_row() that forgets the rows behind a first one that leaves. */
TEST(Wait, AnItemGoesToWhoWaitsLongestForItsKeyHoweverManyKeysTheyName)
{
    Waits waits;
    struct shard *shard = waits.shard.get();
    std::list<std::pair<struct session *, std::vector<std::string>>> oracle;
    std::mt19937 random(13);
    for (unsigned turn = 0; turn < 40000; turn++) {
        struct session &session = waits.sessions[random() % SESSIONS];
        std::string key = "key" + std::to_string(random() % 30);
        bool is_waiting = session.waiting > 0;
        if (!is_waiting) {
            std::vector<std::string> keys;
            for (unsigned count = random() % 6 + 1; count > 0; count--)
                keys.push_back("key" + std::to_string(random() % 30));
            waits.begin(session, keys, random() % 2 * 100000000);
            oracle.emplace_back(&session, keys);
        } else if (random() % 3 == 0) {
            ASSERT_TRUE(session_cancel(shard, &session));
            oracle.remove_if([&](auto &waiter) { return waiter.first == &session; });
        } else {
            struct word word = {key.data(), key.size()};
            struct queue *queue = room_for(shard, word, QUEUE_NEWEST, queue_item_bytes(1));
            ASSERT_NE(queue, nullptr);
            queue_put(&shard->queues, queue, QUEUE_NEWEST, nothing, {"i", 1});
            resumed.clear();
            shard_hand_out(shard, queue);
            auto first = std::find_if(oracle.begin(), oracle.end(), [&](auto &waiter) {
                return std::count(waiter.second.begin(), waiter.second.end(), key) > 0;
            });
            ASSERT_EQ(resumed.size(), first == oracle.end() ? 0u : 1u);
            if (first == oracle.end()) {
                queue_clear(&shard->queues, queue);
                queues_drop_if_idle(&shard->queues, queue);
                continue;
            }
            ASSERT_EQ(*resumed.begin(), first->first);
            struct session *served = first->first;
            std::string reply = "*2\r\n$" + std::to_string(key.size()) + "\r\n" + key +
                                "\r\n$1\r\ni\r\n";
            ASSERT_EQ(std::string(served->reply, served->reply_bytes), reply);
            oracle.erase(first);
        }
    }
    EXPECT_EQ(shard->queues.keys, 0u);
}
