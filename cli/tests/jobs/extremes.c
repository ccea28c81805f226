/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Jobs at the ends of what there is:
 *
 *   extremes rate SECONDS    `fast` (FIFO 80) has 10,000 jobs a second of 20 us each; one in each second takes 60 us
 *   extremes long SECONDS    `slow` (FIFO 60) has ten short jobs, then one that computes for a quarter of the time, sleeps
 *                            for half of it, and computes again, with 20,000 wake-ups a second of `noise` beside it
 *   extremes crowd THREADS   each thread `t0`, `t1`, … (FIFO 50) has 12 jobs, 10 a second; one of them sleeps for 60 ms
 *
 * Printed: `jobs N worst NS` (of `rate` also `median NS`), as the program itself measures them, of a crowd `jobs N` alone.
 * Every thread is bounded in time. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { MS = 1000000, US = 1000 };

static long amount;
static volatile int done;

static long now(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void work(long ns)
{
	long end = now(CLOCK_THREAD_CPUTIME_ID) + ns;

	while (now(CLOCK_THREAD_CPUTIME_ID) < end)
		;
}

static void sleep_until(long at)
{
	struct timespec time = { at / 1000000000, at % 1000000000 };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL))
		;
}

static void sleep_for(long ns)
{
	struct timespec time = { ns / 1000000000, ns % 1000000000 };

	nanosleep(&time, NULL);
}

static void setup(const char *name, int priority, int cpu)
{
	struct sched_param param = { .sched_priority = priority };
	cpu_set_t set;

	prctl(PR_SET_NAME, name);
	CPU_ZERO(&set);
	CPU_SET(cpu % sysconf(_SC_NPROCESSORS_ONLN), &set);
	pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
	if (priority && pthread_setschedparam(pthread_self(), SCHED_FIFO, &param))
		exit(3);
}

static int order(const void *a, const void *b)
{
	long left = *(const long *)a, right = *(const long *)b;

	return (left > right) - (left < right);
}

static void *fast(void *unused)
{
	long start, jobs = amount * 10000, worst = 0, *all = calloc(jobs, sizeof(*all));

	if (!all)
		exit(4);
	memset(all, 0, jobs * sizeof(*all));
	setup("fast", 80, 1);
	start = now(CLOCK_MONOTONIC) + 10 * MS;
	for (long job = 0; job < jobs; job++) {
		long release = start + job * 100 * US, took;

		sleep_until(release);
		work(job % 10000 == 5000 ? 60 * US : 20 * US);
		took = now(CLOCK_MONOTONIC) - release;
		worst = took > worst ? took : worst;
		all[job] = took;
	}
	qsort(all, jobs, sizeof(*all), order);
	printf("jobs %ld worst %ld median %ld\n", jobs, worst, all[jobs / 2]);
	free(all);
	return unused;
}

static void *noise(void *unused)
{
	setup("noise", 70, 0);
	while (!done)
		sleep_for(20 * US);
	return unused;
}

static void *slow(void *unused)
{
	long start = now(CLOCK_MONOTONIC) + 10 * MS, release = start + 200 * MS, took;

	setup("slow", 60, 1);
	for (int job = 0; job < 10; job++) {
		sleep_until(start + job * 20 * MS);
		work(100 * US);
	}
	sleep_until(release);
	work(amount * 250 * MS);
	sleep_for(amount * 500 * MS);
	work(amount * 250 * MS);
	took = now(CLOCK_MONOTONIC) - release;
	for (int job = 0; job < 3; job++)
		sleep_until(now(CLOCK_MONOTONIC) + 20 * MS);
	done = 1;
	printf("jobs 14 worst %ld\n", took);
	return unused;
}

static void *one_of_many(void *number)
{
	long nth = (long)number, start;
	char name[16];

	snprintf(name, sizeof(name), "t%ld", nth);
	setup(name, 50, (int)nth);
	/* Not all at once. */
	start = now(CLOCK_MONOTONIC) + 100 * MS + nth * 100 * US;
	for (int job = 0; job < 12; job++) {
		sleep_until(start + job * 100 * MS);
		if (job == 6)
			sleep_for(60 * MS);
	}
	return number;
}

int main(int argc, char **argv)
{
	static pthread_t threads[1000];
	pthread_attr_t small;
	int count = 0;

	if (argc < 3)
		return 1;
	amount = atol(argv[2]);
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 64 * 1024);
	mlockall(MCL_CURRENT);
	puts("begun");
	fflush(stdout);
	if (!strcmp(argv[1], "rate")) {
		pthread_create(&threads[count++], NULL, fast, NULL);
	} else if (!strcmp(argv[1], "long")) {
		pthread_create(&threads[count++], NULL, noise, NULL);
		pthread_create(&threads[count++], NULL, slow, NULL);
	} else {
		while (count < amount && count < 1000) {
			long number = count;

			if (pthread_create(&threads[count++], &small, one_of_many, (void *)number))
				return 4;
		}
		printf("jobs %ld\n", 12 * amount);
	}
	while (count)
		pthread_join(threads[--count], NULL);
	return 0;
}
