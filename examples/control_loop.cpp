// SPDX-License-Identifier: MIT OR Apache-2.0
// A control loop that is late now and then; docs/howto/why-is-my-loop-late.md finds out why.
//
//   g++ -O2 -pthread -o control_loop examples/control_loop.cpp
//   sudo lathunt record --deadline 500us -- ./control_loop 6
//   sudo lathunt record --deadline 500us -- ./control_loop 6 fixed
//
// `control` (FIFO 80) computes a step 1000 times a second and adds it to a history. `logger`, an ordinary thread, writes
// that history ten times a second, and holds the same mutex meanwhile. Every 700th step, `control` lets the history grow
// into memory that nobody has touched yet. `fixed`: the mutex has priority inheritance, the logger holds it only while it
// takes a copy, and the memory is touched before the loop begins. Ends by itself after the given number of seconds.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>

#include <pthread.h>
#include <sys/mman.h>
#include <time.h>

namespace {

constexpr long period_ns = 1'000'000;
constexpr std::size_t chunk_bytes = 1 << 20;
constexpr std::size_t samples = 4096;

pthread_mutex_t mutex;
double history[samples];
std::size_t newest;
volatile bool done;
double written;
bool fixed;

void name(const char *what)
{
	pthread_setname_np(pthread_self(), what);
}

void create_mutex()
{
	pthread_mutexattr_t attributes;

	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setprotocol(&attributes, fixed ? PTHREAD_PRIO_INHERIT : PTHREAD_PRIO_NONE);
	pthread_mutex_init(&mutex, &attributes);
}

// About 1.5 ms of work for the whole history.
double format(const double *values)
{
	char line[64];
	double sum = 0;

	for (std::size_t i = 0; i < samples; i++)
		sum += std::snprintf(line, sizeof(line), "%zu %.6f", i, values[i]);
	return sum;
}

void logger()
{
	static double copy[samples];

	name("logger");
	while (!done) {
		std::this_thread::sleep_for(std::chrono::milliseconds(100));
		pthread_mutex_lock(&mutex);
		if (fixed)
			std::memcpy(copy, history, sizeof(copy));
		else
			written += format(history);
		pthread_mutex_unlock(&mutex);
		if (fixed)
			written += format(copy);
	}
}

char *memory(std::size_t bytes)
{
	void *pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED)
		std::abort();
	madvise(pages, bytes, MADV_NOHUGEPAGE);
	return static_cast<char *>(pages);
}

void step(long cycle)
{
	volatile double state = cycle;

	for (int i = 0; i < 20'000; i++)
		state = state * 0.5 + i;
	pthread_mutex_lock(&mutex);
	history[newest++ % samples] = state;
	pthread_mutex_unlock(&mutex);
}

void control(long cycles)
{
	const std::size_t growths = cycles / 700 + 1;
	char *chunks = memory(growths * chunk_bytes);
	timespec next;

	name("control");
	if (fixed)
		std::memset(chunks, 1, growths * chunk_bytes);
	sched_param parameters{};
	parameters.sched_priority = 80;
	if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameters))
		std::fprintf(stderr, "control: no SCHED_FIFO, going on without\n");
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (long cycle = 1; cycle <= cycles; cycle++) {
		next.tv_nsec += period_ns;
		if (next.tv_nsec >= 1'000'000'000) {
			next.tv_nsec -= 1'000'000'000;
			next.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, nullptr);
		if (cycle % 700 == 0)
			std::memset(chunks + (cycle / 700 - 1) * chunk_bytes, 1, chunk_bytes);
		step(cycle);
	}
	done = true;
}

} // namespace

int main(int argc, char **argv)
{
	const long seconds = argc > 1 ? std::strtol(argv[1], nullptr, 10) : 6;

	fixed = argc > 2 && !std::strcmp(argv[2], "fixed");
	create_mutex();
	std::thread log(logger);
	std::thread loop(control, seconds * 1000);
	loop.join();
	log.join();
}
