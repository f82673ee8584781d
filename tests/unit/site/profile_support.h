/*
 * profile_support.h: what tests of the profile's writers share: a profile made by hand, and files.
 *
 * Counts as a system header, as ../support.h does.
 */
#pragma GCC system_header
#ifndef CALM_TESTS_UNIT_SITE_PROFILE_SUPPORT_H
#define CALM_TESTS_UNIT_SITE_PROFILE_SUPPORT_H

#include <sys/mman.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "../support.h"
extern "C" {
#include "site/collapsed.h"
#include "site/heap_v2.h"
#include "site/module_table.h"
#include "site/places.h"
#include "site/pprof.h"
#include "site/profile_out.h"
#include "site/profile_write.h"
}

namespace calm_test
{

struct stack {
    std::vector<uintptr_t> callers;
    uint64_t live_blocks, live_bytes, all_blocks, all_bytes;
};

/* The profile that `source` tells of. */
inline std::vector<stack> stacks;
inline struct profile_facts facts;

inline void visit_stacks(void (*visit)(const struct profile_stack *, void *), void *context)
{
    for (const stack &s : stacks) {
        const struct profile_stack seen = {s.callers.data(), s.callers.size(), s.live_blocks,
                                           s.live_bytes,     s.all_blocks,     s.all_bytes};
        visit(&seen, context);
    }
}

inline struct profile_facts read_facts()
{
    return facts;
}

inline const struct profile_source source = {visit_stacks, read_facts};

inline void begin_profile(uint64_t rate_bytes)
{
    stacks.clear();
    facts = {};
    facts.rate_bytes = rate_bytes;
}

/* Tables of places, and words of places in a file named script.py. */
class script
{
  public:
    script() : memory_(new char[places_bytes()]())
    {
        places_start(memory_.get());
    }
    ~script()
    {
        places_start(nullptr);
    }
    uintptr_t word(const std::string &function, uint32_t line) const
    {
        return place_enter({"script.py", 9, 1}, {function.data(), (uint32_t)function.size(), 1},
                           line);
    }

  private:
    std::unique_ptr<char[]> memory_;
};

/* A file without a name, and all that was written to it. */
class file
{
  public:
    file() : fd_(memfd_create("profile", 0)) {}
    ~file()
    {
        close(fd_);
    }
    int fd() const
    {
        return fd_;
    }
    std::string contents() const
    {
        std::string words(static_cast<size_t>(lseek(fd_, 0, SEEK_END)), '\0');
        size_t got = 0;
        while (got < words.size())
            got += static_cast<size_t>(
                pread(fd_, &words[got], words.size() - got, static_cast<off_t>(got)));
        return words;
    }

  private:
    int fd_;
};

/* Three modules: 0x1000 to 0x3000, 0x3000 to 0x4000 of the same file, 0x7000 to 0x9000. */
inline std::unique_ptr<module_table> three_modules()
{
    static const unsigned char build_id[] = {0x0a, 0xb0, 0xff};
    auto table = std::make_unique<module_table>();
    table->count = 3;
    table->modules[0] = {0x1000, 0x3000, 0x400, 0x600, "/bin/a program", build_id, 3, false};
    table->modules[1] = {0x3000, 0x4000, 0x2400, 0x600, "/bin/a program", build_id, 3, false};
    table->modules[2] = {0x7000, 0x9000, 0, 0x7000, "/lib/b;c.so", nullptr, 0, false};
    return table;
}

/* What `write` gives a sink that wraps or does not. */
template <class Write> std::string written(bool is_gzip, Write write)
{
    file out;
    auto sink = std::make_unique<profile_out>();
    profile_out_begin(sink.get(), out.fd(), is_gzip);
    write(sink.get());
    return profile_out_end(sink.get()) == 0 ? out.contents() : "failed";
}

/* Unwraps gzip, strictly as we write it; "" and a sentence in `trouble` when it is not that. */
inline std::string unwrap(const std::string &words, std::string *trouble)
{
    auto byte = [&](size_t i) {
        return static_cast<uint32_t>(static_cast<unsigned char>(words[i]));
    };
    auto number = [&](size_t i, unsigned count) {
        uint32_t value = 0;
        while (count-- > 0)
            value = value << 8 | byte(i + count);
        return value;
    };
    std::string inside;
    size_t at = 10;
    *trouble = "no gzip header";
    if (words.size() < at || number(0, 4) != 0x00088b1f)
        return "";
    for (bool is_last = false; !is_last;) {
        *trouble = "a block is wrong";
        if (at + 5 > words.size() || byte(at) > 1)
            return "";
        is_last = byte(at) == 1;
        uint32_t count = number(at + 1, 2);
        if ((number(at + 3, 2) ^ count) != 0xffff || at + 5 + count > words.size())
            return "";
        inside += words.substr(at + 5, count);
        at += 5 + count;
    }
    uint32_t crc = 0xffffffff;
    for (char c : inside) {
        crc ^= static_cast<unsigned char>(c);
        for (int bit = 0; bit < 8; bit++)
            crc = (crc & 1) != 0 ? crc >> 1 ^ 0xedb88320 : crc >> 1;
    }
    *trouble = "the trailer is wrong";
    if (words.size() != at + 8 || number(at, 4) != ~crc || number(at + 4, 4) != inside.size())
        return "";
    trouble->clear();
    return inside;
}

} // namespace calm_test

#endif
