/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once
/* Jobs of 50 ms of work with a wait in their midst that ends at half the period, so that each of the two waits looks like a
 * release; and waits that several things end. */
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <ucontext.h>
#include "hidden.h"

#define HALF (PERIOD / 2)
#define PART (25 * MS)

/* A sleep by the same call as the release. */
static void *halfperiod(void *unused)
{
	init("halfperiod");
	PERIODIC((void)w; work(25 * MS); until(r + PERIOD / 2); work(25 * MS); job(r))
	return unused;
}

/* Three parts of a job by one loop, and the release by another call. */
static void *steps(void *unused)
{
	init("steps");
	PERIODIC((void)w; for (int step = 1; step < 4; step++) { work(5 * MS); until(r + step * PERIOD / 4); } work(5 * MS);
		 job(r))
	return unused;
}

/* One epoll for the release and for the rest of the job: timers. */
static void *epollhalf(void *unused)
{
	int e = epoll_create1(0), fd[2];
	ns begin = now() + MS, next = begin;

	init("epollhalf");
	for (int i = 0; i < 2; i++) {
		struct itimerspec t = {at(PERIOD), at(begin + i * HALF)};
		struct epoll_event v = {EPOLLIN, {.fd = i}};

		fd[i] = timerfd_create(CLOCK_MONOTONIC, 0);
		timerfd_settime(fd[i], TFD_TIMER_ABSTIME, &t, 0);
		epoll_ctl(e, EPOLL_CTL_ADD, fd[i], &v);
	}
	while (now() < truth->end) {
		struct epoll_event v;
		unsigned long long times;

		if (epoll_wait(e, &v, 1, -1) != 1 || read(fd[v.data.fd], &times, 8) != 8)
			continue;
		work(PART);
		if (v.data.fd) {
			job(next);
			next += PERIOD;
		}
	}
	return unused;
}

/* The same with threads: one asks, another one answers. */
static int request, answer;
static volatile ns asked_at;

static void *asks(void *unused)
{
	init("asks");
	fifo(61);
	PERIODIC((void)w; asked_at = r; if (eventfd_write(request, 1)) break)
	return unused;
}

static void *answers(void *unused)
{
	init("answers");
	fifo(61);
	PERIODIC((void)w; until(r + HALF); if (eventfd_write(answer, 1)) break)
	return unused;
}

static void *eventloop(void *unused)
{
	int e = epoll_create1(0);
	struct epoll_event v = {EPOLLIN, {.fd = 0}};
	pthread_t t;

	request = eventfd(0, 0);
	answer = eventfd(0, 0);
	epoll_ctl(e, EPOLL_CTL_ADD, request, &v);
	v.data.fd = 1;
	epoll_ctl(e, EPOLL_CTL_ADD, answer, &v);
	init("eventloop");
	pthread_create(&t, 0, asks, 0);
	pthread_create(&t, 0, answers, 0);
	while (now() < truth->end - PERIOD) {
		eventfd_t times;

		if (epoll_wait(e, &v, 1, -1) != 1 || eventfd_read(v.data.fd ? answer : request, &times))
			continue;
		work(PART);
		if (v.data.fd)
			job(asked_at);
	}
	return unused;
}

/* One semaphore for both. */
static sem_t both;

static void *posts(void *which)
{
	init("posts");
	fifo(61);
	for (ns r = now() + MS; r < truth->end; r += PERIOD) {
		until(which ? r + HALF : r);
		if (!which)
			asked_at = r;
		sem_post(&both);
	}
	return 0;
}

static void *twoposters(void *unused)
{
	pthread_t t;

	sem_init(&both, 0, 0);
	init("twoposters");
	pthread_create(&t, 0, posts, (void *)0);
	pthread_create(&t, 0, posts, (void *)1);
	for (int k = 0; now() < truth->end - PERIOD; k++) {
		sem_wait(&both);
		work(PART);
		if (k % 2)
			job(asked_at);
	}
	return unused;
}

static void *relhalf(void *unused)
{
	init("relhalf");
	for (ns r = now(); now() < truth->end;) {
		struct timespec some = at(PART);

		r = now();
		work(PART);
		nanosleep(&some, 0);
		work(PART);
		job(r);
		nanosleep(&some, 0);
	}
	return unused;
}

static pthread_mutex_t half_lock = PTHREAD_MUTEX_INITIALIZER;

static void *condhalf(void *unused)
{
	pthread_condattr_t monotonic;
	pthread_cond_t never;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&never, &monotonic);
	init("condhalf");
	pthread_mutex_lock(&half_lock);
	for (ns r = now() + MS; r < truth->end; r += PERIOD) {
		struct timespec release = at(r), middle = at(r + HALF);

		pthread_cond_timedwait(&never, &half_lock, &release);
		work(PART);
		pthread_cond_timedwait(&never, &half_lock, &middle);
		work(PART);
		job(r);
	}
	return unused;
}

/* Two timers send SIGRTMIN from `begin` and SIGRTMIN + 1 half a period later; both signals are blocked. */
static sigset_t two_signals(ns begin)
{
	sigset_t set;
	timer_t timer;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	sigaddset(&set, SIGRTMIN + 1);
	pthread_sigmask(SIG_BLOCK, &set, 0);
	for (int i = 0; i < 2; i++) {
		struct sigevent e = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN + i};
		struct itimerspec every = {at(PERIOD), at(begin + i * HALF)};

		e._sigev_un._tid = gettid();
		timer_create(CLOCK_MONOTONIC, &e, &timer);
		timer_settime(timer, TIMER_ABSTIME, &every, 0);
	}
	return set;
}

/* Two signals, taken by one call. */
static void *signalhalf(void *unused)
{
	ns begin = now() + MS, next = begin;

	init("signalhalf");
	sigset_t set = two_signals(begin);
	while (now() < truth->end) {
		int which = sigwaitinfo(&set, 0);

		work(PART);
		if (which != SIGRTMIN) {
			job(next);
			next += PERIOD;
		}
	}
	return unused;
}

/* ppoll() for the release, pselect() for the middle, both by their time alone. */
static void *mixhalf(void *unused)
{
	init("mixhalf");
	for (ns r = now() + MS; r < truth->end; r += PERIOD) {
		ns left = r - now();
		struct timespec release = at(left > 0 ? left : 0), middle;

		ppoll(0, 0, &release, 0);
		work(PART);
		left = r + HALF - now();
		middle = at(left > 0 ? left : 0);
		pselect(0, 0, 0, 0, &middle, 0);
		work(PART);
		job(r);
	}
	return unused;
}

/* Coroutines of one thread; a job sleeps in one of them, and the other one in between. */
static ucontext_t scheduler, routines[2];
static char stacks[2][65536];
static volatile ns coroutine_release;

static void routine(int second)
{
	for (;;) {
		until(coroutine_release + (second ? HALF : 0));
		work(PART);
		if (second) {
			job(coroutine_release);
			coroutine_release += PERIOD;
		}
		swapcontext(&routines[second], &scheduler);
	}
}

static void *coroutines(void *unused)
{
	init("coroutines");
	coroutine_release = now() + MS;
	for (int i = 0; i < 2; i++) {
		getcontext(&routines[i]);
		routines[i].uc_stack.ss_sp = stacks[i];
		routines[i].uc_stack.ss_size = sizeof(stacks[i]);
		makecontext(&routines[i], (void (*)(void))routine, 1, i);
	}
	for (int k = 0; now() < truth->end; k++)
		swapcontext(&scheduler, &routines[k % 2]);
	return unused;
}

/* Messages of two kinds in one queue. */
struct message { long kind; ns release; };

static void *sends(void *queue)
{
	init("sends");
	fifo(61);
	for (ns r = now() + MS; r < truth->end; r += PERIOD) {
		struct message m = {1, r};

		until(r);
		msgsnd((int)(long)queue, &m, sizeof(ns), 0);
		until(r + HALF);
		m.kind = 2;
		msgsnd((int)(long)queue, &m, sizeof(ns), 0);
	}
	return 0;
}

static void *messages(void *unused)
{
	int queue = msgget(IPC_PRIVATE, 0600);
	struct message m;
	pthread_t t;

	init("messages");
	pthread_create(&t, 0, sends, (void *)(long)queue);
	while (now() < truth->end - PERIOD) {
		msgrcv(queue, &m, sizeof(ns), 1, 0);
		work(PART);
		msgrcv(queue, &m, sizeof(ns), 2, 0);
		work(PART);
		job(m.release);
	}
	msgctl(queue, IPC_RMID, 0);
	return unused;
}

/* A futex of its own kind, that looks like a mutex. */
static _Atomic unsigned own_word;
static volatile ns own_release;

static void *wakes(void *unused)
{
	init("wakes");
	fifo(61);
	PERIODIC((void)w; own_release = r; own_word++; syscall(SYS_futex, &own_word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
		 until(r + HALF); own_word++; syscall(SYS_futex, &own_word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0))
	return unused;
}

static void *ownfutex(void *unused)
{
	pthread_t t;

	init("ownfutex");
	pthread_create(&t, 0, wakes, 0);
	for (unsigned seen = 0; now() < truth->end - PERIOD;) {
		while (own_word == seen)
			syscall(SYS_futex, &own_word, FUTEX_WAIT_PRIVATE, seen, 0, 0, 0);
		seen++;
		work(PART);
		while (own_word == seen)
			syscall(SYS_futex, &own_word, FUTEX_WAIT_PRIVATE, seen, 0, 0, 0);
		seen++;
		work(PART);
		job(own_release);
	}
	return unused;
}
