// importer.cpp: reads records without end and keeps an index of them, until something ends it. With
// a folder of cgroup v2 as its word it enters that first; it says "ready" once it is there.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <unistd.h>
#include <vector>

namespace
{

struct Index {
    std::map<std::string, std::vector<long>> places;

    __attribute__((noinline)) void add(long record)
    {
        std::string key = "customer number " + std::to_string(record) +
                          " of this import, by name and by place";
        places[key].push_back(record);
    }
};

__attribute__((noinline)) std::string read_record(long record)
{
    return std::string(200, static_cast<char>('a' + record % 26));
}

} // namespace

int main(int count, char **words)
{
    if (count > 1 && words[1][0] != '\0')
        std::ofstream(std::string(words[1]) + "/cgroup.procs") << getpid() << std::flush;
    std::cout << "ready" << std::endl;
    Index index;
    for (long record = 0;; record++) {
        if (!read_record(record).empty())
            index.add(record);
        if (record % 1000 == 0)
            usleep(2000);
    }
}
