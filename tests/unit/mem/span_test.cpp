/*
 * span_test.cpp: mem/span.c against a naive model that has one character for each unit.
 */
#include <gtest/gtest.h>

#include <map>
#include <sys/wait.h>
#include <unistd.h>

#include "span_support.h"

enum Mark : char { USED = 'u', DIRTY = 'd', CLEAN = 'c' };

/* Unit by unit: used, dirty, clean. Runs of one free state are what the lists must hold. */
class Model
{
  public:
    void grow_to(size_t units)
    {
        if (marks_.size() < units)
            marks_.resize(units, CLEAN);
        std::fill_n(marks_.begin(), std::min<size_t>(units, CHUNK_UNITS), USED);
    }

    bool is_all(size_t unit, size_t units, Mark mark) const
    {
        for (size_t u = unit; u < unit + units; u++)
            if (marks_.at(u) != mark)
                return false;
        return true;
    }

    bool has_used(size_t unit, size_t units) const
    {
        for (size_t u = unit; u < unit + units; u++)
            if (marks_.at(u) == USED)
                return true;
        return false;
    }

    void set(size_t unit, size_t units, Mark mark)
    {
        for (size_t u = unit; u < unit + units; u++)
            marks_.at(u) = mark;
    }

    size_t count(Mark mark) const
    {
        return static_cast<size_t>(std::count(marks_.begin(), marks_.end(), mark));
    }

    size_t longest(Mark mark) const
    {
        size_t best = 0, run = 0;
        for (char m : marks_)
            best = std::max(best, run = m == mark ? run + 1 : 0);
        return best;
    }

    /* Every maximal run of a free state has its length and state in the tags of both its ends. */
    void expect_tags() const
    {
        for (size_t u = 1; u < marks_.size();) {
            size_t end = u + 1;
            while (end < marks_.size() && marks_[end] == marks_[u])
                end++;
            if (marks_[u] != USED) {
                unsigned state = marks_[u] == DIRTY ? SPAN_DIRTY : SPAN_CLEAN;
                ASSERT_EQ(region.tags[u].state, state) << u;
                ASSERT_EQ(region.tags[u].units, end - u) << u;
                ASSERT_EQ(region.tags[end - 1].state, state) << end - 1;
                ASSERT_EQ(region.tags[end - 1].units, end - u) << end - 1;
            }
            u = end;
        }
    }

    size_t size() const
    {
        return marks_.size();
    }

  private:
    std::string marks_;
};

class SpanTest : public testing::Test
{
  protected:
    static void SetUpTestSuite()
    {
        start_spans();
    }

    void SetUp() override
    {
        while (span_purge(SIZE_MAX, SIZE_MAX) > 0)
            continue;
        ASSERT_EQ(span_dirty_bytes(), 0u);
        ASSERT_EQ(span_verify(), nullptr);
    }
};

static void expect_aligned(const struct span &span, size_t align_units)
{
    EXPECT_EQ(reinterpret_cast<uintptr_t>(region_address(span.unit)) % (align_units << UNIT_SHIFT),
              0u);
}

/*
 * Random acquires, releases, extensions, shrinks and purges, each compared with the model. Seen to
 * fail with the merge with the span before left out of insert(), with state SPAN_CLEAN returned for
 * dirty spans, and with carve() losing the remainder behind.
 */
TEST_F(SpanTest, RandomOperationsAgreeWithAModelThatHasOneMarkForEachUnit)
{
    for (uint64_t seed = 1; seed <= 2; seed++) {
        calm_test::Random random(seed);
        Model model;
        std::map<size_t, size_t> live;
        model.grow_to(std::max<size_t>(region_units(), CHUNK_UNITS));
        for (size_t u = CHUNK_UNITS; u < model.size();
             u++) { /* what an earlier test left is learned from its tags */
            unsigned state = region.tags[u].state;
            size_t units = state == SPAN_USED ? 1 : region.tags[u].units;
            model.set(u, units, state == SPAN_USED ? USED : state == SPAN_DIRTY ? DIRTY : CLEAN);
            u += units - 1;
        }
        for (unsigned step = 0; step < 2500; step++) {
            unsigned what = static_cast<unsigned>(random.below(10));
            if (what < 5 || live.empty()) {
                size_t units = 1 + random.below(random.below(4) == 0 ? 200 : 12);
                size_t align = static_cast<size_t>(1)
                               << (random.below(4) == 0 ? random.below(6) : 0);
                bool had_room = model.longest(DIRTY) >= units + align - 1 ||
                                model.longest(CLEAN) >= units + align - 1;
                size_t before = region_units();
                struct span span = span_acquire(units, align, 0);
                ASSERT_NE(span.unit, 0u);
                ASSERT_EQ(span.units, units);
                expect_aligned(span, align);
                model.grow_to(region_units());
                if (units <= 32 && align == 1 && had_room) {
                    ASSERT_EQ(before, region_units())
                        << "an exact fit or a longer list must be found";
                }
                ASSERT_FALSE(model.has_used(span.unit, units)) << "handed out twice";
                ASSERT_TRUE(model.is_all(span.unit, units, span.is_zero ? CLEAN : DIRTY));
                if (span.is_zero) {
                    ASSERT_TRUE(calm_test::is_zero(region_address(span.unit), units << UNIT_SHIFT));
                }
                for (size_t u = span.unit; u < span.unit + units; u++)
                    region_address(u)[random.below(UNIT_BYTES)] = 1;
                model.set(span.unit, units, USED);
                live[span.unit] = units;
            } else if (what < 8) {
                auto it = std::next(live.begin(), static_cast<long>(random.below(live.size())));
                span_release(it->first, it->second, false);
                model.set(it->first, it->second, DIRTY);
                live.erase(it);
            } else if (what == 8) {
                auto it = std::next(live.begin(), static_cast<long>(random.below(live.size())));
                size_t more = 1 + random.below(8), behind = it->first + it->second;
                bool is_free = behind + more <= model.size() &&
                               (model.is_all(behind, more, DIRTY) ||
                                model.is_all(behind, more, CLEAN));
                bool is_at_front = behind == region_units();
                ASSERT_EQ(span_extend(it->first, it->second, it->second + more),
                          is_free || is_at_front);
                model.grow_to(region_units());
                if (is_free || is_at_front) {
                    model.set(behind, more, USED);
                    memset(region_address(behind), 1, more << UNIT_SHIFT);
                    it->second += more;
                }
            } else {
                auto it = std::next(live.begin(), static_cast<long>(random.below(live.size())));
                if (it->second > 1) {
                    size_t left = 1 + random.below(it->second - 1);
                    span_shrink(it->first, it->second, left, false);
                    model.set(it->first + left, it->second - left, DIRTY);
                    it->second = left;
                }
            }
            ASSERT_EQ(span_verify(), nullptr);
            ASSERT_EQ(span_dirty_bytes(), model.count(DIRTY) << UNIT_SHIFT);
            if (step % 50 == 0) {
                ASSERT_NO_FATAL_FAILURE(model.expect_tags());
            }
            if (step % 700 == 699) {
                while (span_purge(SIZE_MAX, SIZE_MAX) > 0)
                    continue;
                for (size_t u = CHUNK_UNITS; u < model.size(); u++)
                    if (model.is_all(u, 1, DIRTY))
                        model.set(u, 1, CLEAN);
                ASSERT_NO_FATAL_FAILURE(model.expect_tags());
            }
        }
        for (const auto &span : live)
            span_release(span.first, span.second, false);
        ASSERT_EQ(span_verify(), nullptr);
    }
}

TEST_F(SpanTest, APurgedSpanIsNotResidentAndComesBackAsZero)
{
    struct span span = span_acquire(64, 1, 0);
    char *start = region_address(span.unit);
    memset(start, 0xAA, 64 << UNIT_SHIFT);
    span_release(span.unit, 64, false);
    size_t resident = region_resident_bytes();
    size_t purged = 0;
    while (size_t bytes = span_purge(SIZE_MAX, SIZE_MAX))
        purged += bytes;
    EXPECT_EQ(purged, 64u << UNIT_SHIFT);
    EXPECT_EQ(resident - region_resident_bytes(), 64u << UNIT_SHIFT);
    EXPECT_EQ(span_dirty_bytes(), 0u);
    span = span_acquire(64, 1, 0);
    EXPECT_TRUE(span.is_zero);
    EXPECT_TRUE(calm_test::is_zero(region_address(span.unit), 64 << UNIT_SHIFT));
    span_release(span.unit, 64, true);
}

/* What would be left of a span parts two clean ones. Seen to fail with a claim that cuts them. */
TEST_F(SpanTest, APurgeTakesWholeSpansOfWhichAHalfIsWanted)
{
    struct span span = span_acquire(1000, 1, 0), wall = span_acquire(1, 1, 0),
                other = span_acquire(100, 1, 0), end = span_acquire(1, 1, 0);
    span_release(span.unit, 1000, false);
    span_release(other.unit, 100, false);
    EXPECT_EQ(span_purge(10 << UNIT_SHIFT, SIZE_MAX), 0u);
    EXPECT_EQ(span_purge(60 << UNIT_SHIFT, SIZE_MAX), 100u << UNIT_SHIFT);
    EXPECT_EQ(span_purge(60 << UNIT_SHIFT, SIZE_MAX), 0u);
    EXPECT_EQ(span_purge(500 << UNIT_SHIFT, SIZE_MAX), 1000u << UNIT_SHIFT);
    EXPECT_EQ(span_dirty_bytes(), 0u);
    span_release(wall.unit, 1, true);
    span_release(end.unit, 1, true);
}

TEST_F(SpanTest, APurgeCutsASpanThatIsLongerThanOneMayBe)
{
    struct span span = span_acquire(1000, 1, 0);
    span_release(span.unit, 1000, false);
    EXPECT_EQ(span_purge(10 << UNIT_SHIFT, 10 << UNIT_SHIFT), 10u << UNIT_SHIFT);
    EXPECT_EQ(span_dirty_bytes(), 990u << UNIT_SHIFT);
}

TEST_F(SpanTest, DirtySpansAreTakenBeforeCleanOnes)
{
    struct span clean = span_acquire(8, 1, 0), wall = span_acquire(1, 1, 0),
                dirty = span_acquire(8, 1, 0);
    struct span end = span_acquire(1, 1, 0);
    span_release(clean.unit, 8, true);
    span_release(dirty.unit, 8, false);
    struct span taken = span_acquire(8, 1, 0);
    EXPECT_EQ(taken.unit, dirty.unit);
    EXPECT_FALSE(taken.is_zero);
    span_release(taken.unit, 8, false);
    span_release(wall.unit, 1, false);
    span_release(end.unit, 1, false);
    EXPECT_EQ(span_verify(), nullptr);
}

/*
 * Idle is what was dirty all the time since the last question. A unit cut out of a long dirty span,
 * or put back beside it, leaves nearly all of it idle. Seen to fail when the least is noted while
 * the span is in no list.
 */
TEST_F(SpanTest, IdleBytesAreTheLeastThereWereAndALittleWorkDoesNotHideThem)
{
    struct span span = span_acquire(1000, 1, 0);
    span_release(span.unit, 1000, false);
    span_take_idle_bytes();
    EXPECT_EQ(span_take_idle_bytes(), 1000u << UNIT_SHIFT);
    struct span cut = span_acquire(10, 1, 0);
    span_release(cut.unit, 10, false);
    EXPECT_EQ(span_dirty_bytes(), 1000u << UNIT_SHIFT);
    EXPECT_EQ(span_take_idle_bytes(), 990u << UNIT_SHIFT);
    EXPECT_EQ(span_take_idle_bytes(), 1000u << UNIT_SHIFT);
}

/* A thread's spans of up to 20 units, each unit of which has the thread's number while it is the
 * thread's. Says whether all were served and no unit had another number. */
static bool has_units_of_its_own(size_t number, unsigned seed, unsigned steps)
{
    calm_test::Random random(seed);
    std::vector<struct span> mine;
    bool is_own = true;
    for (unsigned step = 0; step < steps; step++) {
        if (mine.size() < 20 && random.below(2) == 0) {
            struct span span = span_acquire(1 + random.below(20), 1, 0);
            if (span.unit == 0)
                return false;
            for (size_t u = 0; u < span.units; u++)
                *reinterpret_cast<size_t *>(region_address(span.unit + u)) = number;
            mine.push_back(span);
        } else if (!mine.empty()) {
            std::swap(mine[random.below(mine.size())], mine.back());
            for (size_t u = 0; u < mine.back().units; u++)
                if (*reinterpret_cast<size_t *>(region_address(mine.back().unit + u)) != number)
                    is_own = false;
            span_release(mine.back().unit, mine.back().units, false);
            mine.pop_back();
        }
        if (step % 500 == 0)
            span_purge(1 << 22, SIZE_MAX);
    }
    for (const struct span &span : mine)
        span_release(span.unit, span.units, false);
    return is_own;
}

TEST_F(SpanTest, ThreadsNeverShareAUnit)
{
    std::atomic<bool> is_shared{false};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 4; t++) {
        threads.emplace_back([&, t] {
            if (!has_units_of_its_own(t + 1, 900 + t, 2500))
                is_shared = true;
        });
    }
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_FALSE(is_shared);
    EXPECT_EQ(span_verify(), nullptr);
}

/* What the verifier says while a unit's tag names another owner. */
static const char *verdict_with_owner(size_t unit, unsigned owner)
{
    uint16_t before = region.tags[unit].owner;
    region.tags[unit].owner = static_cast<uint16_t>(owner);
    const char *found = span_verify();
    region.tags[unit].owner = before;
    return found;
}

/*
 * Whoever had a unit first has it for ever, whatever is released, extended, cut, purged and merged.
 * Seen to fail with is_alike() that compares states only, and with span_extend() that does not
 * stamp.
 */
TEST_F(SpanTest, AUnitBelongsForEverToTheOwnerWhoTookItFirst)
{
    calm_test::Random random(77);
    std::map<size_t, unsigned> owner_of;
    std::map<size_t, std::pair<size_t, unsigned>> live;
    auto note = [&](size_t unit, size_t units, unsigned owner) {
        for (size_t u = unit; u < unit + units; u++) {
            ASSERT_EQ(owner_of.emplace(u, owner).first->second, owner) << u;
            ASSERT_EQ(region.tags[u].owner, owner) << u;
        }
    };
    const unsigned steps = 20000;
    size_t used_half = 0;
    for (unsigned step = 0; step < steps; step++) {
        unsigned owner = 1 + static_cast<unsigned>(random.below(5)) * 200;
        auto any = live.begin();
        std::advance(any, static_cast<long>(live.empty() ? 0 : random.below(live.size())));
        if (live.size() < 60 && random.below(2) == 0) {
            size_t align = static_cast<size_t>(1) << random.below(4);
            struct span span = span_acquire(1 + random.below(40), align, owner);
            ASSERT_NE(span.unit, 0u);
            expect_aligned(span, align);
            ASSERT_NO_FATAL_FAILURE(note(span.unit, span.units, owner));
            live[span.unit] = {span.units, owner};
        } else if (any == live.end()) {
            continue;
        } else if (random.below(4) == 0) {
            auto &[units, whose] = any->second;
            size_t more = units + 1 + random.below(8);
            if (span_extend(any->first, units, more))
                units = more;
            ASSERT_NO_FATAL_FAILURE(note(any->first, units, whose));
        } else if (any->second.first > 1 && random.below(4) == 0) {
            size_t units = 1 + random.below(any->second.first - 1);
            span_shrink(any->first, any->second.first, units, false);
            any->second.first = units;
        } else {
            span_release(any->first, any->second.first, random.below(2) == 0);
            live.erase(any);
        }
        if (step % 50 == 0)
            span_purge(random.below(64) << UNIT_SHIFT, SIZE_MAX);
        if (step % 100 == 0) {
            ASSERT_EQ(span_verify(), nullptr) << step;
        }
        if (step == steps / 2)
            used_half = owner_of.size();
    }
    EXPECT_EQ(span_owned_bytes(), owner_of.size() << UNIT_SHIFT);
    EXPECT_LT(owner_of.size() - used_half, used_half / 2) << "what owners have they use again";
    for (const auto &span : live)
        span_release(span.first, span.second.first, false);
    while (span_purge(SIZE_MAX, SIZE_MAX) > 0)
        continue;
    EXPECT_EQ(span_dirty_bytes(), 0u);
    EXPECT_EQ(span_verify(), nullptr);
}

TEST_F(SpanTest, TheVerifierSeesAUnitThatChangedItsOwner)
{
    struct span used = span_acquire(5, 1, 9), idle = span_acquire(5, 1, 9);
    struct span wall = span_acquire(1, 1, 9);
    span_release(idle.unit, 5, false);
    ASSERT_EQ(span_verify(), nullptr);
    EXPECT_EQ(std::string(verdict_with_owner(used.unit + 2, 10)).substr(0, 2), "S6");
    EXPECT_EQ(std::string(verdict_with_owner(used.unit + 2, 0)).substr(0, 2), "S6");
    EXPECT_NE(verdict_with_owner(idle.unit + 2, 10), nullptr);
    std::swap(region.tags[used.unit].owner, region.tags[idle.unit + 2].owner);
    EXPECT_EQ(span_verify(), nullptr);
    span_release(used.unit, 5, false);
    span_release(wall.unit, 1, false);
}

/* Seen to fail with claim_dirty() that goes no further than half of the owners. */
TEST_F(SpanTest, APurgeReachesTheSpansOfEveryOwner)
{
    for (unsigned owner = 1; owner < SPAN_OWNER_LIMIT; owner += 7) {
        struct span span = span_acquire(2, 1, owner);
        ASSERT_NE(span.unit, 0u);
        span_release(span.unit, 2, false);
    }
    ASSERT_GT(span_dirty_bytes(), 0u);
    while (span_purge(SIZE_MAX, SIZE_MAX) > 0)
        continue;
    EXPECT_EQ(span_dirty_bytes(), 0u);
    EXPECT_EQ(span_verify(), nullptr);
}

/* A thread that takes the lock of the spans and keeps it, as one that is stopped there does. */
class Holder
{
  public:
    Holder()
    {
        thread_ = std::thread([this] {
            span_fork_lock();
            is_held_ = true;
            while (!is_over_)
                std::this_thread::yield();
            span_fork_unlock();
        });
        while (!is_held_)
            std::this_thread::yield();
    }

    ~Holder()
    {
        is_over_ = true;
        thread_.join();
    }

  private:
    std::atomic<bool> is_held_{false}, is_over_{false};
    std::thread thread_;
};

/* Seen to fail where what is released or cut off meanwhile is lost, and where what was nobody's and
 * pending gets no owner. */
TEST_F(SpanTest, EveryRequestIsServedWhileAStoppedThreadHasTheLock)
{
    calm_test::Random random(31);
    std::vector<struct span> live;
    std::map<size_t, unsigned> owner_of;
    size_t units_half = 0;
    const unsigned steps = 20000;
    {
        Holder holder;
        for (unsigned step = 0; step < steps; step++) {
            if (live.size() < 40 && random.below(2) == 0) {
                size_t align = static_cast<size_t>(1) << random.below(3);
                unsigned owner = static_cast<unsigned>(random.below(3));
                struct span span = span_acquire(1 + random.below(20), align, owner);
                ASSERT_NE(span.unit, 0u);
                expect_aligned(span, align);
                if (span.is_zero) {
                    ASSERT_TRUE(calm_test::is_zero(region_address(span.unit), UNIT_BYTES));
                }
                for (size_t u = span.unit; u < span.unit + span.units; u++) {
                    ASSERT_EQ(region.tags[u].owner, owner);
                    if (owner != 0) {
                        ASSERT_EQ(owner_of.emplace(u, owner).first->second, owner);
                    }
                    ASSERT_EQ(*region_address(u), 0) << "handed out twice";
                    *region_address(u) = 1;
                }
                live.push_back(span);
            } else if (!live.empty()) {
                std::swap(live[random.below(live.size())], live.back());
                struct span span = live.back();
                for (size_t u = span.unit; u < span.unit + span.units; u++)
                    *region_address(u) = 0;
                if (span.units > 1 && random.below(4) == 0) {
                    span_shrink(span.unit, span.units, span.units - 1, false);
                    live.back().units--;
                    for (size_t u = span.unit; u < span.unit + span.units - 1; u++)
                        *region_address(u) = 1;
                    continue;
                }
                span_release(span.unit, span.units, false);
                live.pop_back();
            }
            if (step % 500 == 0)
                span_purge(SIZE_MAX, SIZE_MAX);
            if (step == steps / 2)
                units_half = region_units();
        }
        EXPECT_GT(span_dirty_bytes(), 0u);
        EXPECT_LT(region_units() - units_half, units_half / 3) << "what is pending is taken again";
    }
    for (const struct span &span : live)
        span_release(span.unit, span.units, false);
    EXPECT_EQ(span_verify(), nullptr);
    while (span_purge(SIZE_MAX, SIZE_MAX) > 0)
        continue;
    EXPECT_EQ(span_dirty_bytes(), 0u);
    EXPECT_EQ(span_verify(), nullptr);
}

/* Seen to hang where the last try waits for the lock. */
TEST_F(SpanTest, ARequestThatCannotBeServedEndsWhileAStoppedThreadHasTheLock)
{
    Holder holder;
    EXPECT_EQ(span_acquire(size_t{REGION_CHUNKS_MAX} * CHUNK_UNITS, 1, 0).unit, 0u);
    struct span span = span_acquire(3, 1, 0);
    ASSERT_NE(span.unit, 0u);
    span_release(span.unit, 3, true);
}

/* The lists may be half changed then. Seen to fail with span_fork_reset() that frees the lock. */
TEST_F(SpanTest, AChildLeavesListsAloneThatAThreadOfItsParentHasInHand)
{
    if (calm_test::is_sanitized)
        GTEST_SKIP() << "a child of a process with threads";
    struct span listed = span_acquire(5, 1, 0);
    span_release(listed.unit, 5, false);
    Holder holder;
    region.tags[listed.unit].next = UINT32_MAX - 7; /* nowhere */
    region.tags[listed.unit].units = 0;
    pid_t child = fork();
    if (child == 0) {
        lock_start();
        span_fork_reset(false);
        for (size_t units = 1; units < 300; units++) {
            struct span one = span_acquire(units, 1, 0), other = span_acquire(units, 1, 0);
            if (one.unit == 0 || other.unit == 0 ||
                (one.unit < other.unit + units && other.unit < one.unit + units))
                _exit(1);
            memset(region_address(one.unit), 1, units << UNIT_SHIFT);
            memset(region_address(other.unit), 2, units << UNIT_SHIFT);
            if (*region_address(one.unit) != 1)
                _exit(2);
            span_release(one.unit, units, false);
            span_release(other.unit, units, false);
            span_purge(SIZE_MAX, SIZE_MAX);
        }
        _exit(span_acquire(size_t{REGION_CHUNKS_MAX} * CHUNK_UNITS, 1, 0).unit == 0 ? 0 : 3);
    }
    region.tags[listed.unit].next = 0;
    region.tags[listed.unit].units = 5;
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
}

/* What came while the lock was held is in the lists again after as many turns as it needs. Seen to
 * fail where who takes the lock merges nothing, and where dirty spans become pending as clean. */
TEST_F(SpanTest, WhatIsPendingIsMergedByWhoeverHasTheLockNext)
{
    std::vector<struct span> spans;
    for (unsigned i = 0; i < 200; i++)
        spans.push_back(span_acquire(1 + i % 50, 1, i % 3));
    size_t units = 0;
    {
        Holder holder;
        for (const struct span &span : spans) {
            span_release(span.unit, span.units, false);
            units += span.units;
        }
        EXPECT_EQ(span_dirty_bytes(), units << UNIT_SHIFT);
    }
    for (unsigned i = 0; i < 30; i++)
        span_take_idle_bytes();
    EXPECT_EQ(span_take_idle_bytes(), units << UNIT_SHIFT) << "all of it is in lists";
    EXPECT_EQ(span_verify(), nullptr);
}

/* Seen to fail with a purge that gives up when it does not get the lock. */
TEST_F(SpanTest, APurgeGivesBackWhatIsPendingWhileTheLockIsHeld)
{
    struct span span = span_acquire(64, 1, 0);
    memset(region_address(span.unit), 1, 64 << UNIT_SHIFT);
    size_t resident = region_resident_bytes();
    Holder holder;
    span_release(span.unit, 64, false);
    EXPECT_EQ(span_purge(SIZE_MAX, SIZE_MAX), 64u << UNIT_SHIFT);
    EXPECT_EQ(resident - region_resident_bytes(), 64u << UNIT_SHIFT);
    EXPECT_EQ(span_dirty_bytes(), 0u);
    struct span again = span_acquire(64, 1, 0);
    EXPECT_EQ(again.unit, span.unit);
    EXPECT_TRUE(again.is_zero);
    span_release(again.unit, 64, true);
}

/* With threads that take the lock and go, and one that has it most of the time. Seen to fail where
 * spans are joined that are no neighbours; a tenth of the steps were over too soon for that. */
TEST_F(SpanTest, ThreadsNeverShareAUnitWhileTheLockIsHeldNowAndThen)
{
    std::atomic<bool> is_over{false}, is_shared{false};
    std::thread holder([&] {
        while (!is_over) {
            span_fork_lock();
            std::this_thread::sleep_for(std::chrono::microseconds(300));
            span_fork_unlock();
            std::this_thread::sleep_for(std::chrono::microseconds(100));
        }
    });
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 3; t++) {
        threads.emplace_back([&, t] {
            if (!has_units_of_its_own(t + 1, 700 + t, 200000))
                is_shared = true;
        });
    }
    for (std::thread &thread : threads)
        thread.join();
    is_over = true;
    holder.join();
    EXPECT_FALSE(is_shared);
    EXPECT_EQ(span_verify(), nullptr);
}
