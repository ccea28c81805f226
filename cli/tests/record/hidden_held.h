/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once
/* Threads that the kernel holds up where they wait for their next job, so that its release ends no wait. */
#include "hidden.h"
#include <sys/resource.h>

enum { AREAS = 60000, PAGE = 4096, STACK = 1 << 20 };
static ns held_up_from;

/* Starts a fork just before each third release. */
static void *forking(void *unused)
{
	init("forking");
	fifo(0);
	setpriority(PRIO_PROCESS, 0, -20);
	pin(0);
	for (ns k = 0, r = held_up_from; r < truth->end; k++, r += PERIOD) {
		if (k % 3 != 1)
			continue;
		until(r - MS);
		pid_t child = fork();
		if (!child)
			_exit(0);
		waitpid(child, 0, 0);
	}
	return unused;
}

static void *held_by_fork(void *unused)
{
	init("forkheld");
	for (ns k = 0, r = held_up_from; r < truth->end; k++, r += PERIOD) {
		until(r);
		work(k % 3 == 1 ? LATE / 2 : MS);
		job(r);
	}
	return unused;
}

/* Its stack is write-protected by a fork, which takes long because there are many areas at higher addresses: on its way out of
 * the sleep the kernel writes to its stack (rseq), and has to wait. */
static void *forkheld(void *unused)
{
	pid_t child = fork();
	pthread_t held, by;

	if (!child) {
		char *stack = mmap(0, STACK + AREAS * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		char *areas = stack + STACK;
		pthread_attr_t below;

		pthread_attr_init(&below);
		pthread_attr_setstack(&below, stack, STACK);
		for (long i = 0; i < AREAS; i++) {
			areas[i * PAGE] = 1;
			if (i % 2)
				mprotect(areas + i * PAGE, PAGE, PROT_READ);
		}
		held_up_from = now() + PERIOD;
		truth->end = held_up_from + 12 * PERIOD;
		pthread_create(&by, 0, forking, 0);
		pthread_create(&held, &below, held_by_fork, 0);
		pthread_join(held, 0);
		_exit(0);
	}
	waitpid(child, 0, 0);
	return unused;
}

/* Frozen by cgroup v2 in the wait for a semaphore, and thawed LATE after a post. Without that freezer it works for as long. */
static void *frozensem(void *unused)
{
	struct { sem_t posted; _Atomic ns release; } *shared;
	char group[64], tid[16];
	int lacks;
	pid_t child;

	shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	sem_init(&shared->posted, 1, 0);
	snprintf(group, sizeof(group), "/sys/fs/cgroup/hidden.%d", getpid());
	lacks = access("/sys/fs/cgroup/cgroup.procs", F_OK);
	if (lacks) {
		snprintf(group, sizeof(group), "/sys/fs/cgroup/unified/hidden.%d", getpid());
		lacks = access("/sys/fs/cgroup/unified/cgroup.procs", F_OK);
	}
	lacks = lacks || mkdir(group, 0700);
	child = fork();
	if (!child) {
		init("frozensem");
		while (now() < truth->end) {
			sem_wait(&shared->posted);
			work(lacks ? LATE : MS);
			job(shared->release);
		}
		_exit(0);
	}
	snprintf(tid, sizeof(tid), "%d", child);
	tell(group, "cgroup.procs", tid);
	pin(0);
	fifo(70);
	for (ns r = now() + PERIOD, k = 0; r < truth->end + 2 * PERIOD; r += PERIOD, k++) {
		if (k % 3 == 1) {
			until(r - 20 * MS);
			tell(group, "cgroup.freeze", "1");
		}
		until(r);
		shared->release = r;
		sem_post(&shared->posted);
		until(r + LATE);
		tell(group, "cgroup.freeze", "0");
	}
	waitpid(child, 0, 0);
	rmdir(group);
	return unused;
}
