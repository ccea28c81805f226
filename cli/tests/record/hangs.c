/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A thread of 200 Hz whose last turn is never over. `spins`: it computes on; `starves`: a thread of higher priority takes
 * its CPU; `ends`: it computes for 50 ms and ends. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void runs(long long ns)
{
	long long end = now() + ns;

	while (now() < end)
		;
}

static void become(const char *name, int priority)
{
	struct sched_param param = { .sched_priority = priority };
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(sysconf(_SC_NPROCESSORS_ONLN) - 1, &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
	prctl(PR_SET_NAME, name);
	sched_setscheduler(0, SCHED_FIFO, &param);
}

static void *turns(void *count)
{
	long long next = now();

	become("hangs", 20);
	for (int turn = 0; turn < (long)count; turn++) {
		struct timespec until;

		next += 5000000;
		until.tv_sec = next / 1000000000;
		until.tv_nsec = next % 1000000000;
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
		runs(50000);
	}
	return NULL;
}

int main(int count, char **words)
{
	const char *what = count > 1 ? words[1] : "ends";
	pthread_t victim;

	if (!strcmp(what, "starves")) {
		pthread_create(&victim, NULL, turns, (void *)100000L);
		usleep(500000);
		become("hog", 30);
		runs(4000000000LL);
		_exit(0);
	}
	turns((void *)100L);
	runs(strcmp(what, "ends") ? 4000000000LL : 50000000LL);
	return 0;
}
