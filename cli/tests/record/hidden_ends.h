/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once
/* Jobs that are a thread or a process of their own, that another process stops, and work behind the last wait. */
#include "hidden.h"

/* A process for each job. */
static void *procjob(void *unused)
{
	init("parent");
	PERIODIC(if (!fork()) { work(w); job(r); _exit(0); } wait(0))
	return unused;
}

static void *vforkjob(void *unused)
{
	init("vforker");
	PERIODIC(if (!vfork()) { work(w); job(r); _exit(0); } wait(0))
	return unused;
}

/* A thread for each job. */
static void *onejob(void *release)
{
	init("onejob");
	work(LATE);
	job((ns)(long)release);
	return 0;
}

static void *threadjob(void *unused)
{
	pthread_t t;

	init("spawner");
	PERIODIC((void)w; pthread_create(&t, 0, onejob, (void *)(long)r); pthread_join(t, 0))
	return unused;
}

/* Stopped by its parent in the midst of a job. */
static void *stopped(void *unused)
{
	pid_t child = fork();

	if (!child) {
		init("stopped");
		PERIODIC((void)w; work(MS); raise(SIGSTOP); job(r))
		_exit(0);
	}
	while (waitpid(child, 0, WUNTRACED | WNOHANG) == 0 || kill(child, 0) == 0) {
		until(now() + LATE);
		kill(child, SIGCONT);
		if (waitpid(child, 0, WNOHANG) == child)
			break;
	}
	return unused;
}

static void *traced(void *unused)
{
	pid_t child = fork();

	if (!child) {
		init("traced");
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		PERIODIC((void)w; work(MS); raise(SIGUSR1); job(r))
		_exit(0);
	}
	for (int status; waitpid(child, &status, 0) == child && WIFSTOPPED(status);) {
		until(now() + LATE);
		ptrace(PTRACE_CONT, child, 0, 0);
	}
	return unused;
}

/* A process for each job, in the same memory, that is not waited for. */
static char clone_stack[65536] __attribute__((aligned(16)));

static int cloned(void *release)
{
	prctl(PR_SET_NAME, "cloned");
	work(LATE);
	job((ns)(long)release);
	return 0;
}

static void *sibling(void *unused)
{
	init("sibling");
	PERIODIC((void)w; clone(cloned, clone_stack + sizeof(clone_stack), CLONE_VM | CLONE_FS | CLONE_PARENT,
				(void *)(long)r))
	until(truth->end + PERIOD);
	return unused;
}

/* A new name space of process ids: the recorder sees other ids than the program. */
static void *namespace(void *unused)
{
	if (unshare(CLONE_NEWPID))
		exit(77);
	pid_t child = fork();

	if (!child) {
		plain(0);
		_exit(0);
	}
	waitpid(child, 0, 0);
	return unused;
}

/* SIGEV_THREAD: glibc begins a thread for each expiry. */
static void notified(union sigval unused)
{
	ns r = now();

	(void)unused;
	init("notified");
	work(LATE);
	job(r);
}

static void *sigevthread(void *unused)
{
	struct sigevent e = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = notified};
	struct itimerspec every = {at(PERIOD), at(PERIOD)};
	timer_t timer;

	timer_create(CLOCK_MONOTONIC, &e, &timer);
	timer_settime(timer, 0, &every, 0);
	until(truth->end);
	return unused;
}

/* The descendant goes on when the program has ended. */
static void *daemonised(void *unused)
{
	if (!fork()) {
		setsid();
		truth->end += 300 * MS;
		plain(0);
		_exit(0);
	}
	until(truth->end);
	return unused;
}

/* Each job begins in one program and ends in the next. */
static void execchain(int number)
{
	char next[16];
	ns r = truth->begin + number * PERIOD;

	init("execchain");
	until(r);
	work(LATE / 2);
	if (number * PERIOD < truth->end - truth->begin) {
		snprintf(next, sizeof(next), "%d", number + 1);
		setenv("HIDDEN_EXEC", next, 1);
		execl("/proc/self/exe", "hidden", "execchain", (char *)0);
	}
}

/* Work behind the last wait: in a destructor, in an exit handler. */
static pthread_key_t key;
static volatile ns last_release;

static void destroy(void *unused)
{
	(void)unused;
	work(LATE);
	job(last_release);
}

static void *destructor(void *unused)
{
	init("destructor");
	pthread_key_create(&key, destroy);
	pthread_setspecific(key, &key);
	for (ns r = now() + MS; r + PERIOD < truth->end; r += PERIOD) {
		until(r);
		work(MS);
		last_release = r;
	}
	until(last_release += PERIOD);
	return unused;
}

static void at_exit(void) { work(LATE); job(last_release); }
