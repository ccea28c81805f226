/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once
/* The clock of the programs here, and their real-time threads on the last CPU. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
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
