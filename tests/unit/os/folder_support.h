/*
 * folder_support.h: a test with a folder of its own, for files as the kernel has them.
 */
#ifndef CALM_TESTS_UNIT_OS_FOLDER_SUPPORT_H
#define CALM_TESTS_UNIT_OS_FOLDER_SUPPORT_H

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <unistd.h>

class FolderTest : public testing::Test
{
  protected:
    void SetUp() override
    {
        char path[] = "/tmp/calm-unit-XXXXXX";
        ASSERT_NE(mkdtemp(path), nullptr);
        folder_ = path;
    }

    void TearDown() override
    {
        std::filesystem::remove_all(folder_);
    }

    std::string folder_;
};

#endif
