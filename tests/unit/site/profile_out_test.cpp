/*
 * profile_out_test.cpp: site/profile_out.c against a reader of gzip that shares no line with it.
 */
#include <gtest/gtest.h>

#include <errno.h>
#include <fcntl.h>

#include "profile_support.h"

static std::string pattern(size_t count)
{
    std::string words(count, '\0');
    for (size_t i = 0; i < count; i++)
        words[i] = static_cast<char>(i * 7 + i / 256);
    return words;
}

/* Seen to fail with a complement of eight bits, and with the last block's length for the whole. */
TEST(ProfileOut, GzipUnwrapsToWhatWasWrittenAtEveryLengthAroundABlock)
{
    for (size_t count : {0, 1, PROFILE_OUT_BYTES - 1, +PROFILE_OUT_BYTES, PROFILE_OUT_BYTES + 1,
                         3 * PROFILE_OUT_BYTES + 5}) {
        std::string words = pattern(count);
        std::string gzip = calm_test::written(
            true, [&](profile_out *out) { profile_out_bytes(out, words.data(), words.size()); });
        std::string trouble;
        EXPECT_EQ(calm_test::unwrap(gzip, &trouble), words) << count;
        EXPECT_EQ(trouble, "") << count;
    }
}

/* The check value that the CRC's catalogues give. Seen to fail with two of its steps exchanged. */
TEST(ProfileOut, TheChecksumIsTheOneOfTheCatalogue)
{
    std::string gzip = calm_test::written(
        true, [](profile_out *out) { profile_out_text(out, "123456789"); });
    ASSERT_EQ(gzip.size(), 10u + 5 + 9 + 8);
    EXPECT_EQ(gzip.substr(24, 4), "\x26\x39\xf4\xcb");
    EXPECT_EQ(gzip.substr(28, 4), std::string("\x09\0\0\0", 4));
}

TEST(ProfileOut, PlainTextIsWrittenAsItIsInAnyPieces)
{
    std::string words = pattern(2 * PROFILE_OUT_BYTES + 77);
    std::string read_back = calm_test::written(false, [&](profile_out *out) {
        for (size_t at = 0; at < words.size(); at += 1000)
            profile_out_bytes(out, &words[at], std::min<size_t>(1000, words.size() - at));
        profile_out_number(out, UINT64_MAX);
        profile_out_text(out, " ");
        profile_out_hex(out, UINT64_MAX);
    });
    EXPECT_EQ(read_back, words + "18446744073709551615 0xffffffffffffffff");
}

/* Seen to fail with write_out() that asks no more whether there was an error. */
TEST(ProfileOut, TheFirstErrorIsKeptAndNothingIsWrittenAfterIt)
{
    calm_test::file file;
    auto out = std::make_unique<profile_out>();
    profile_out_begin(out.get(), -1, false);
    std::string words = pattern(PROFILE_OUT_BYTES);
    profile_out_bytes(out.get(), words.data(), words.size());
    out->fd = file.fd();
    profile_out_bytes(out.get(), words.data(), words.size());
    EXPECT_EQ(profile_out_end(out.get()), EBADF);
    EXPECT_EQ(file.contents(), "");
}
