/*
 * keep_format_test.cpp: a file with queues, whole, and with every byte of it wrong.
 */
#include <gtest/gtest.h>

#include <cstring>
#include <string>

extern "C" {
#include "crc32c.h"
#include "keep_format.h"
}

namespace
{

/* Bit by bit, as RFC 3720 describes it. */
uint32_t slow_crc(const std::string &text)
{
    uint32_t crc = ~0u;
    for (unsigned char byte : text) {
        crc ^= byte;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (crc & 1 ? 0x82F63B78u : 0);
    }
    return ~crc;
}

template <class Value> std::string bytes_of(const Value &value)
{
    return std::string(reinterpret_cast<const char *>(&value), sizeof value);
}

struct File {
    File()
    {
        keep_header header = {};
        memcpy(header.mark, KEEP_MARK, sizeof KEEP_MARK);
        header.cores = 2;
        header.seed = 77;
        add(bytes_of(header));
    }

    void add(const std::string &part)
    {
        summed += part;
        all += part + bytes_of(slow_crc(summed));
    }

    void end(uint64_t queues)
    {
        keep_record record = {};
        record.kind = KEEP_END;
        record.count = queues;
        add(bytes_of(record));
    }

    keep_state check() const
    {
        keep_header header;
        return keep_check(all.data(), all.size(), &header);
    }

    std::string all, summed;
};

std::string item_of(const std::string &text)
{
    return bytes_of(static_cast<uint32_t>(text.size())) + text;
}

File two_queues()
{
    File file;
    keep_record record = {};
    record.kind = KEEP_QUEUE;
    record.count = 2;
    file.add(bytes_of(record) + item_of("") + item_of("precious")); /* the empty key */
    record.key_bytes = 2;
    record.count = 0;
    record.job = KEEP_JOB_TAKEN;
    record.job_key_bytes = 1;
    record.payload_bytes = 3;
    file.add(bytes_of(record) + "idqpay");
    file.end(2);
    return file;
}

TEST(Crc32c, IsTheStandardsOfAnyLengthAndInAnyParts)
{
    EXPECT_EQ(crc32c(0, "123456789", 9), 0xE3069283u);
    EXPECT_EQ(crc32c(0, std::string(32, '\0').data(), 32), 0x8A9136AAu);
    std::string text;
    for (unsigned i = 0; i < 100; i++) {
        ASSERT_EQ(crc32c(0, text.data(), text.size()), slow_crc(text));
        ASSERT_EQ(crc32c(crc32c(0, text.data(), i / 3), text.data() + i / 3, i - i / 3),
                  slow_crc(text));
        text += static_cast<char>(i * 37);
    }
}

TEST(KeepFormat, AWholeFileIsItsQueues)
{
    File file = two_queues();
    ASSERT_EQ(file.check(), KEEP_WHOLE);
    keep_cursor cursor = keep_begin(file.all.data(), file.all.size());
    keep_entry entry;
    word item;
    ASSERT_TRUE(keep_next(&cursor, &entry));
    EXPECT_EQ(entry.key.bytes, 0u);
    EXPECT_EQ(entry.longest, 8u);
    EXPECT_EQ(entry.stream_bytes, 2u + 10u);
    keep_cursor items = keep_items(&entry);
    ASSERT_TRUE(keep_next_item(&items, &item));
    EXPECT_EQ(item.bytes, 0u);
    ASSERT_TRUE(keep_next_item(&items, &item));
    EXPECT_EQ(std::string(item.start, item.bytes), "precious");
    EXPECT_FALSE(keep_next_item(&items, &item));
    ASSERT_TRUE(keep_next(&cursor, &entry));
    EXPECT_EQ(std::string(entry.key.start, 2), "id");
    EXPECT_EQ(std::string(entry.job_key.start, 1), "q");
    EXPECT_EQ(std::string(entry.payload.start, entry.payload.bytes), "pay");
    EXPECT_FALSE(keep_next(&cursor, &entry));
}

TEST(KeepFormat, EachWrongByteIsSeen)
{
    File file = two_queues();
    for (size_t at = 0; at < file.all.size(); at++)
        for (unsigned char flip : {1, 0x80, 0xFF}) {
            file.all[at] = static_cast<char>(file.all[at] ^ flip);
            ASSERT_NE(file.check(), KEEP_WHOLE) << at;
            file.all[at] = static_cast<char>(file.all[at] ^ flip);
        }
    EXPECT_EQ(file.check(), KEEP_WHOLE);
}

TEST(KeepFormat, EachPartOfAFileIsCutOffAndMoreThanOneIsDamaged)
{
    File whole = two_queues(), part;
    for (size_t bytes = 0; bytes < whole.all.size(); bytes++) {
        part.all = whole.all.substr(0, bytes);
        ASSERT_EQ(part.check(), KEEP_CUT_OFF) << bytes;
    }
    part.all = whole.all + "x";
    EXPECT_EQ(part.check(), KEEP_DAMAGED);
    part.all = std::string(4096, '\0');
    EXPECT_EQ(part.check(), KEEP_CUT_OFF);
}

TEST(KeepFormat, AQueueThatIsMissingOrThereTwiceIsSeen)
{
    File file;
    file.end(1);
    EXPECT_EQ(file.check(), KEEP_DAMAGED);
    File whole = two_queues();
    size_t header = sizeof(keep_header) + 4, first = sizeof(keep_record) + 4 + 12 + 4;
    size_t second = sizeof(keep_record) + 6 + 4;
    file.all = whole.all.substr(0, header + first) + whole.all.substr(header, first) +
               whole.all.substr(header + first + second);
    EXPECT_EQ(file.check(), KEEP_DAMAGED);
}

TEST(KeepFormat, WhatAnotherVersionWroteIsKnownAsThat)
{
    File file;
    file.all = "calmq queues 1\n" + std::string(100, '\0');
    EXPECT_EQ(file.check(), KEEP_OTHER_VERSION);
    file.all = "dear diary, today";
    EXPECT_EQ(file.check(), KEEP_FOREIGN);
}

} // namespace
