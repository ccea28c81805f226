// A switch of Boost.Context in ns of CPU time: two contexts that resume each other. Prints one number.
#include <boost/context/fiber.hpp>
#include <cstdio>
#include <ctime>
#include <utility>

static double cpu()
{
    std::timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return 1e9 * time.tv_sec + time.tv_nsec;
}

int main()
{
    constexpr long rounds = 4000000;
    boost::context::fiber other{[](boost::context::fiber &&back) {
        for (;;)
            back = std::move(back).resume();
        return std::move(back);
    }};
    other = std::move(other).resume();
    double begin = cpu();
    for (long round = 0; round < rounds; round++)
        other = std::move(other).resume();
    std::printf("%f\n", (cpu() - begin) / (2 * rounds));
}
