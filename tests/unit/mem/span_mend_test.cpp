/*
 * span_mend_test.cpp: a thread ends at any instruction of a change to the lists of spans, as when a
 * handler ends it; whoever comes next finds the lists whole.
 */
#include <gtest/gtest.h>

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <functional>

#include "span_support.h"

#if defined(__x86_64__)

#include "../../support/step.h"

static std::atomic<uint64_t> steps_left;

static void on_step(int signal)
{
    (void)signal;
    if (--steps_left == 0)
        syscall(SYS_exit, 0);
}

/* Runs `body` in a thread that ends after so many instructions. Returns whether it was done before.
 */
static bool run_and_end_after(uint64_t steps, const std::function<void()> &body)
{
    std::atomic<uint32_t> id{0};
    std::atomic<bool> is_done{false};
    steps_left = steps;
    std::thread([&] {
        lock_own_word();
        id = os_thread_id();
        step(true);
        body();
        step(false);
        is_done = true;
        syscall(SYS_exit, 0);
    }).detach();
    while (id == 0 || !os_task_has_ended(id))
        usleep(50);
    return is_done;
}

/* Four used spans side by side, the first of which others may be taken of; a wall behind. */
struct Row {
    static constexpr size_t LENGTH = 6;
    struct span whole = span_acquire(4 * LENGTH, 1, 0), wall = span_acquire(1, 1, 0);

    size_t at(size_t index) const
    {
        return whole.unit + index * LENGTH;
    }
};

/*
 * `prepare` is done by this thread, `change` by one that ends in it. What is listed afterwards is
 * what was before, or what is after a change that is whole; in between the units that are in hand
 * may be in no list.
 */
static void end_everywhere(const std::function<void(const Row &)> &prepare,
                           const std::function<void(const Row &)> &change)
{
    bool is_done = false;
    uint64_t steps = 1;
    for (; !is_done; steps += steps < 300 ? 1 : 5) {
        ASSERT_LT(steps, 3000u);
        Row row;
        ASSERT_NE(row.whole.unit, 0u);
        ASSERT_NE(row.wall.unit, 0u);
        prepare(row);
        ASSERT_STREQ(span_verify(), nullptr);
        is_done = run_and_end_after(steps, [&] { change(row); });
        ASSERT_STREQ(span_verify(), nullptr) << "after " << steps << " instructions";
        struct span next = span_acquire(Row::LENGTH, 1, 0);
        ASSERT_NE(next.unit, 0u);
        span_release(next.unit, next.units, false);
        ASSERT_STREQ(span_verify(), nullptr);
    }
    EXPECT_GT(steps, 40u) << "nothing was stepped through";
}

class SpanMendTest : public testing::Test
{
  protected:
    void SetUp() override
    {
        if (calm_test::is_sanitized)
            GTEST_SKIP() << "a sanitizer's own code would be stepped through";
        start_spans();
        lock_start();
        signal(SIGTRAP, on_step);
    }
};

/* Seen to fail with any one of the calls of keep() and keep_tag() left out. */
TEST_F(SpanMendTest, AReleaseThatMergesWithBothNeighboursIsTakenBack)
{
    end_everywhere(
        [](const Row &row) {
            span_release(row.at(0), Row::LENGTH, false);
            span_release(row.at(2), Row::LENGTH, false);
        },
        [](const Row &row) { span_release(row.at(1), Row::LENGTH, false); });
}

TEST_F(SpanMendTest, AnAcquireIsTakenBack)
{
    end_everywhere(
        [](const Row &row) {
            span_release(row.at(0), 2 * Row::LENGTH, false);
            span_release(row.at(3), 3, false);
        },
        [](const Row &row) {
            (void)row;
            span_acquire(Row::LENGTH / 2, 2, 0);
        });
}

TEST_F(SpanMendTest, AnExtensionIsTakenBack)
{
    end_everywhere([](const Row &row) { span_release(row.at(1), Row::LENGTH, false); },
                   [](const Row &row) { span_extend(row.at(0), Row::LENGTH, Row::LENGTH + 3); });
}

TEST_F(SpanMendTest, SlackThatIsMadeAndEndsIsTakenBack)
{
    end_everywhere([](const Row &row) { span_release(row.at(1), 3 * Row::LENGTH, true); },
                   [](const Row &row) {
                       (void)row;
                       struct span growing = span_acquire_growing(Row::LENGTH, 0, 1, 0);
                       span_extend(growing.unit, growing.units, growing.units + 1);
                       span_release(growing.unit, growing.units + 1, true);
                   });
}

#endif
