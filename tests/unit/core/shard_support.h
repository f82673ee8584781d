/*
 * shard_support.h: shards for a test, on any machine: the calling thread is on whichever CPU the
 * test says.
 */
#ifndef CALM_TESTS_UNIT_CORE_SHARD_SUPPORT_H
#define CALM_TESTS_UNIT_CORE_SHARD_SUPPORT_H

namespace calm_test
{

/* As with `shards=count`, until its end. */
class Shards
{
  public:
    explicit Shards(unsigned count) : area_before_(area_joined)
    {
        EXPECT_TRUE(heap_start());
        shard_start(count, 2);
        area_joined = &area_;
        run_on(0);
    }

    ~Shards()
    {
        heap_trim(); /* nothing may lie in stacks that nobody will look at */
        for (struct depot *depot = depot_newest(); depot != nullptr; depot = depot->below)
            depot->others = nullptr; /* of a number that others do not have */
        area_joined = area_before_;
        shard_start(1, 2);
    }

    Shards(const Shards &) = delete;
    Shards &operator=(const Shards &) = delete;

    void run_on(unsigned cpu)
    {
        area_.cpu_id = cpu;
    }

  private:
    struct rseq_area area_ = {};
    struct rseq_area *area_before_;
};

} // namespace calm_test

#endif
