/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A thread `victim` of 200 Hz waits for a CPU that a thread `hog` of higher priority has. `demoted`: once for 700 ms and the rest
 * of 900 ms, because it loses its priority while it waits. `shared`: each time for 5 ms, and then for 100 µs more behind `equal`,
 * a thread of its own priority. On stdout: its longest latency in ns. */
#include "threads.h"
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#define MS 1000000LL

static long long begin;
static pid_t victim;

static void until(long long at)
{
	struct timespec time = { at / 1000000000, at % 1000000000 };

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
}

static void runs_until(long long at)
{
	while (now() < at)
		;
}

static void *hogs(void *shared)
{
	become("hog", 60);
	if (!shared) {
		until(begin + 498 * MS);
		runs_until(begin + 1400 * MS);
		return NULL;
	}
	for (int i = 0; i < 100; i++) {
		until(begin + i * 20 * MS + MS / 5);
		runs_until(begin + i * 20 * MS + 5 * MS + MS / 2);
	}
	return NULL;
}

/* Preempted by `hog`, it goes on before the victim does. */
static void *equals(void *unused)
{
	(void)unused;
	become("equal", 40);
	for (int i = 0; i < 100; i++) {
		until(begin + i * 20 * MS);
		runs_until(begin + i * 20 * MS + 5 * MS + MS * 6 / 10);
	}
	return NULL;
}

static void *waits(void *shared)
{
	long long longest = 0, period = shared ? 20 * MS : 5 * MS;

	become("victim", 40);
	victim = syscall(SYS_gettid);
	for (int i = 0; i < (shared ? 100 : 200); i++) {
		long long due = begin + i * period + MS / 2, late;

		until(due);
		late = now() - due;
		longest = late > longest ? late : longest;
		if (late > 100 * MS)
			break;
	}
	dprintf(1, "%lld\n", longest);
	return NULL;
}

int main(int count, char **words)
{
	void *shared = count > 1 && !strcmp(words[1], "shared") ? words : NULL;
	struct sched_param none = {};
	pthread_t threads[3];

	begin = now() + 300 * MS;
	pthread_create(&threads[0], NULL, waits, shared);
	pthread_create(&threads[1], NULL, hogs, shared);
	if (shared) {
		pthread_create(&threads[2], NULL, equals, NULL);
	} else {
		until(begin + 1200 * MS);
		sched_setscheduler(victim, SCHED_OTHER, &none);
	}
	pthread_join(threads[0], NULL);
	return 0;
}
