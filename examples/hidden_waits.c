/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A control loop with two defects to find:
 *
 *   cc -O2 -pthread -o hidden_waits examples/hidden_waits.c && sudo lathunt record -- ./hidden_waits 10
 *
 * `control` (FIFO 80) wakes up 1000 times a second. Every 100th turn it touches a page that is not there (the program
 * gives it back to the kernel; a library that frees memory does the same), and every 50th turn it takes a lock that
 * `low` (FIFO 10) holds for 2 ms at a time: an ordinary mutex, without priority inheritance. Ends by itself. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

enum { PERIOD_NS = 1000000, PAGE = 4096 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile char *page;
static volatile int done;
static long turns;

static void fifo(const char *name, int priority)
{
	struct sched_param param = { .sched_priority = priority };

	prctl(PR_SET_NAME, name);
	if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &param))
		fprintf(stderr, "%s: no SCHED_FIFO, going on without\n", name);
}

static void add(struct timespec *time, long ns)
{
	time->tv_nsec += ns;
	while (time->tv_nsec >= 1000000000) {
		time->tv_nsec -= 1000000000;
		time->tv_sec++;
	}
}

static void *control(void *unused)
{
	struct timespec next;

	fifo("control", 80);
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (long turn = 1; turn <= turns; turn++) {
		add(&next, PERIOD_NS);
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
		if (turn % 100 == 0) {
			madvise((void *)page, PAGE, MADV_DONTNEED);
			page[0]++;
		}
		if (turn % 50 == 0) {
			pthread_mutex_lock(&lock);
			pthread_mutex_unlock(&lock);
		}
	}
	done = 1;
	return unused;
}

static void *low(void *unused)
{
	struct timespec pause = { .tv_nsec = 1000000 }, hold = { .tv_nsec = 2000000 };

	fifo("low", 10);
	while (!done) {
		pthread_mutex_lock(&lock);
		nanosleep(&hold, NULL); /* works on something slow */
		pthread_mutex_unlock(&lock);
		nanosleep(&pause, NULL);
	}
	return unused;
}

int main(int argc, char **argv)
{
	struct rlimit limit = { .rlim_cur = 200000, .rlim_max = 200000 }; /* a runaway ends after 0.2 s */
	pthread_t threads[2];

	turns = 1000 * (argc > 1 ? atol(argv[1]) : 10);
	setrlimit(RLIMIT_RTTIME, &limit);
	page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return 1;
	pthread_create(&threads[0], NULL, control, NULL);
	pthread_create(&threads[1], NULL, low, NULL);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	return 0;
}
