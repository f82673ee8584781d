/*
 * plugin.cpp: a shared object that allocates while it is loaded, in every thread that calls it, and
 * while it is unloaded. dlopen_plugin.c opens and closes it.
 */
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace
{

std::map<int, std::string> made_at_load;
std::string *kept_until_unload;

struct loader {
    loader()
    {
        for (int i = 0; i < 500; i++)
            made_at_load[i] = std::string(static_cast<std::size_t>(i), 'l');
        kept_until_unload = new std::string(5000, 'k');
    }
    ~loader()
    {
        delete kept_until_unload;
        std::vector<std::string> made_at_unload(100, std::string(300, 'u'));
    }
} loader_instance;

thread_local std::vector<std::string> of_this_thread;

} // namespace

/* Returns a block that the caller frees, and leaves some with the thread. */
extern "C" void *plugin_call(std::size_t size)
{
    of_this_thread.push_back(std::string(size, 't'));
    return std::malloc(size);
}
