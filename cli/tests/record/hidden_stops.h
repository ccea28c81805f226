/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once
/* Threads that are stopped while they wait, jobs that go from one thread or process to the next, and other ends. */
#include "hidden.h"

/* Stopped in the wait for its release, and continued LATE after it. */
static void stop_in_wait(pid_t child, ns first)
{
	for (ns r = first; r < truth->end - PERIOD; r += PERIOD) {
		until(r - 20 * MS);
		kill(child, SIGSTOP);
		until(r + LATE - 5 * MS);
		kill(child, SIGCONT);
	}
	waitpid(child, 0, 0);
}

static void *stopwait(void *unused)
{
	ns first = now() + 2 * PERIOD;
	pid_t child = fork();

	if (!child) {
		init("stopwait");
		for (ns r = first; r < truth->end; r += PERIOD) {
			until(r);
			work(MS);
			job(r);
		}
		_exit(0);
	}
	stop_in_wait(child, first);
	return unused;
}

/* Stopped in the wait for a semaphore, and continued LATE after a post. */
static void *stopsem(void *unused)
{
	struct { sem_t posted; _Atomic ns release; } *shared;
	pid_t child;

	shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	sem_init(&shared->posted, 1, 0);
	child = fork();
	if (!child) {
		init("stopsem");
		while (now() < truth->end) {
			sem_wait(&shared->posted);
			work(MS);
			job(shared->release);
		}
		_exit(0);
	}
	pin(0);
	fifo(70);
	for (ns r = now() + PERIOD, k = 0; r < truth->end + 2 * PERIOD; r += PERIOD, k++) {
		if (k % 3 == 1) {
			until(r - 20 * MS);
			kill(child, SIGSTOP);
		}
		until(r);
		shared->release = r;
		sem_post(&shared->posted);
		until(r + LATE);
		kill(child, SIGCONT);
	}
	waitpid(child, 0, 0);
	return unused;
}

static void *stoptimer(void *unused)
{
	ns first = now() + 2 * PERIOD;
	pid_t child = fork();

	if (!child) {
		int t = timerfd_create(CLOCK_MONOTONIC, 0);
		struct itimerspec every = {at(PERIOD), at(first)};
		unsigned long long times;

		init("stoptimer");
		timerfd_settime(t, TFD_TIMER_ABSTIME, &every, 0);
		for (ns r = first; r < truth->end; r += PERIOD) {
			if (read(t, &times, 8) != 8)
				break;
			work(MS);
			job(r);
		}
		_exit(0);
	}
	stop_in_wait(child, first);
	return unused;
}

/* Stopped in the wait for its release by a debugger. */
static void *tracewait(void *unused)
{
	ns first = now() + 2 * PERIOD;
	pid_t child = fork();
	int status;

	if (!child) {
		init("tracewait");
		for (ns r = first; r < truth->end; r += PERIOD) {
			until(r);
			work(MS);
			job(r);
		}
		_exit(0);
	}
	if (ptrace(PTRACE_SEIZE, child, 0, 0))
		exit(77);
	for (ns r = first; r < truth->end - PERIOD; r += PERIOD) {
		until(r - 20 * MS);
		ptrace(PTRACE_INTERRUPT, child, 0, 0);
		waitpid(child, &status, 0);
		until(r + LATE);
		ptrace(PTRACE_CONT, child, 0, 0);
	}
	ptrace(PTRACE_DETACH, child, 0, 0);
	while (waitpid(child, &status, 0) == child && !WIFEXITED(status))
		ptrace(PTRACE_CONT, child, 0, 0);
	return unused;
}

static int tell(const char *group, const char *name, const char *what)
{
	char path[128];
	int file;

	snprintf(path, sizeof(path), "%s/%s", group, name);
	file = open(path, O_WRONLY);
	if (file < 0)
		return -1;
	if (write(file, what, strlen(what)) < 0)
		perror(path);
	return close(file);
}

/* Frozen in the wait for its release by the freezer of cgroup v1, and thawed LATE after it. Without that freezer it works
 * for as long. */
static void *frozenwait(void *unused)
{
	ns first = now() + 2 * PERIOD;
	char group[64], tid[16];
	pid_t child;
	int lacks;

	snprintf(group, sizeof(group), "/sys/fs/cgroup/freezer/hidden.%d", getpid());
	lacks = mkdir(group, 0700);
	child = fork();
	if (!child) {
		init("frozenwait");
		for (ns r = first; r < truth->end; r += PERIOD) {
			until(r);
			work(lacks ? LATE : MS);
			job(r);
		}
		_exit(0);
	}
	snprintf(tid, sizeof(tid), "%d", child);
	tell(group, "tasks", tid);
	for (ns r = first; r < truth->end - PERIOD; r += PERIOD) {
		until(r - 20 * MS);
		tell(group, "freezer.state", "FROZEN");
		until(r + LATE);
		tell(group, "freezer.state", "THAWED");
	}
	waitpid(child, 0, 0);
	rmdir(group);
	return unused;
}

/* Half of a job in a thread, the other half in the next one, which nobody waits for. */
static void *second_half(void *release)
{
	init("secondhalf");
	work(25 * MS);
	job((ns)(long)release);
	return 0;
}

static void *first_half(void *release)
{
	pthread_t t;

	init("firsthalf");
	work(25 * MS);
	pthread_create(&t, 0, second_half, release);
	pthread_detach(t);
	return 0;
}

static void *relay(void *unused)
{
	pthread_t t;

	init("relay");
	fifo(61);
	PERIODIC((void)w; pthread_create(&t, 0, first_half, (void *)(long)r); pthread_detach(t))
	until(truth->end + PERIOD);
	return unused;
}

static void *forkrelay(void *unused)
{
	init("forkrelay");
	signal(SIGCHLD, SIG_IGN);
	fifo(61);
	PERIODIC((void)w; if (!fork()) { fifo(60); work(25 * MS); if (!fork()) { work(25 * MS); job(r); } _exit(0); })
	until(truth->end + PERIOD);
	return unused;
}

/* Another policy in the midst of the job: a reservation, which throttles it. */
static void *reserved(void *unused)
{
	struct {
		unsigned size, policy;
		unsigned long long flags;
		int nice;
		unsigned priority;
		unsigned long long runtime, deadline, period;
	} reservation = {48, 6, 0, 0, 0, 5 * MS, 20 * MS, 20 * MS}, fixed = {48, SCHED_FIFO, 0, 0, 60, 0, 0, 0};

	prctl(PR_SET_NAME, "reserved");
	fifo(60);
	PERIODIC(work(MS); syscall(SYS_sched_setattr, 0, &reservation, 0); work(w == LATE ? 14 * MS : MS);
		 syscall(SYS_sched_setattr, 0, &fixed, 0); job(r))
	return unused;
}

/* Its job is the kernel's work in one call. */
static void *longcall(void *unused)
{
	size_t size = 8 << 20;
	char *m = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	int zero = open("/dev/zero", O_RDONLY);

	init("longcall");
	PERIODIC(ns end = r + w; while (now() < end) if (read(zero, m, w == LATE ? size : 65536) < 0) break; job(r))
	return unused;
}

/* A process is killed in its job, which is never over. */
static void *killed(void *unused)
{
	init("killed");
	fifo(61);
	PERIODIC(if (w == LATE) { pid_t child = fork(); if (!child) { fifo(60); work(10 * LATE); _exit(0); }
		 until(r + LATE); kill(child, SIGKILL); job(r); waitpid(child, 0, 0); })
	return unused;
}

/* Half a job, then another program. */
static void *exechalf(void *unused)
{
	init("exechalf");
	fifo(61);
	PERIODIC((void)w; if (!fork()) { fifo(60); work(25 * MS); job(r - 25 * MS);
		 execl("/bin/sh", "sh", "-c", "i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done", (char *)0); _exit(1); }
		 wait(0))
	return unused;
}

/* In time: stopped in the wait for its release, which goes on; no release passes meanwhile. */
static void *restarted(void *unused)
{
	struct timespec pause = at(80 * MS);
	pid_t child = fork();

	if (!child) {
		init("restarted");
		while (now() < truth->end) {
			nanosleep(&pause, 0);
			ns r = now();
			work(MS);
			job(r);
		}
		_exit(0);
	}
	for (ns r = now() + 50 * MS; r < truth->end - PERIOD; r += 131 * MS) {
		until(r);
		kill(child, SIGSTOP);
		until(r + 2 * MS);
		kill(child, SIGCONT);
	}
	waitpid(child, 0, 0);
	return unused;
}

/* In time: it arms its timer for times that have passed by then, and takes up the next job without a wait. */
static void *rearmed(void *unused)
{
	int t = timerfd_create(CLOCK_MONOTONIC, 0);
	ns r = now() + MS, every = 20 * MS;
	unsigned long long times;

	init("rearmed");
	for (int k = 0; r < truth->end; k++, r += every) {
		struct itimerspec once = {{0, 0}, at(r)};

		timerfd_settime(t, TFD_TIMER_ABSTIME, &once, 0);
		if (read(t, &times, 8) != 8)
			break;
		work(k % 12 == 3 ? 30 * MS : k % 12 > 3 && k % 12 < 8 ? 16 * MS : MS);
		job(r);
	}
	return unused;
}

/* In time: it waits for its moves to another CPU much more often than for its releases. */
static void *migrating(void *unused)
{
	init("migrating");
	PERIODIC((void)w; for (int i = 0; i < 50; i++) { pin(i % 2); work(MS / 20); } pin(1); job(r))
	return unused;
}
