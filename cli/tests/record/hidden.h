/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once
/* What the programs of hidden.c have in common: their clock, their work, their log, and the thread that is never late. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef long long ns;
#define MS 1000000LL
#define LATE (60 * MS)
#define DEADLINE (40 * MS)
#define PERIOD (100 * MS)

/* Shared with children. */
static struct truth {
	_Atomic long jobs, late;
	_Atomic long long max;
	ns end, begin;
} *truth;

static ns now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static struct timespec at(ns t) { return (struct timespec){t / 1000000000LL, t % 1000000000LL}; }

static void until(ns t)
{
	struct timespec s = at(t);

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &s, 0) == EINTR)
		;
}

/* CPU time, so that what takes the CPU from it does not count as its work. */
static void work(ns t)
{
	struct timespec c;
	ns end;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &c);
	end = c.tv_sec * 1000000000LL + c.tv_nsec + t;
	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &c);
	while (c.tv_sec * 1000000000LL + c.tv_nsec < end);
}

static void job(ns release)
{
	long long took = now() - release, max = truth->max;

	truth->jobs++;
	if (took > DEADLINE)
		truth->late++;
	while (took > max && !atomic_compare_exchange_weak(&truth->max, &max, took))
		;
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void fifo(int priority)
{
	struct sched_param p = {.sched_priority = priority};

	if (sched_setscheduler(0, priority ? SCHED_FIFO : SCHED_OTHER, &p))
		exit(77);
}

static void init(const char *name)
{
	prctl(PR_SET_NAME, name);
	pin(1);
	fifo(60);
}

static void *good(void *unused)
{
	ns next = now(), period = (getenv("GOOD_US") ? atoll(getenv("GOOD_US")) : 50) * 1000;

	init("good");
	pin(0);
	fifo(50);
	while (now() < truth->end) {
		next += period;
		while (next < now())
			next += period;
		until(next);
	}
	return unused;
}

/* Runs `each(k, release)` every PERIOD; every third job is a late one. */
#define PERIODIC(...)                                                                                                \
	for (ns k = 0, r = now() + MS; r < truth->end; k++, r += PERIOD) {                                                \
		until(r);                                                                                                     \
		ns w = k % 3 == 1 ? LATE : MS;                                                                                \
		__VA_ARGS__;                                                                                                  \
	}

static void *plain(void *unused)
{
	init("plain");
	PERIODIC(work(w); job(r))
	return unused;
}
