/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once
/* Workers that take turns at jobs, as the runtimes of Go and tokio have them: one waits for events in an epoll instance, the
 * others sleep on one futex each. The worker that takes an event wakes another one to wait for the next, does the job, and
 * sleeps. */
#include "hidden.h"

#define TAKERS 3

static struct {
	int events, timer, parked[TAKERS]; /* 1: waits in its word */
	unsigned count;
	ns next;
	pthread_mutex_t lock;
} turns = {.lock = PTHREAD_MUTEX_INITIALIZER};
static long late_ones;

static void park(int *word)
{
	while (__atomic_load_n(word, __ATOMIC_ACQUIRE))
		syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, 1, 0, 0, 0);
}

static void unpark_one(void)
{
	for (int i = 0; i < TAKERS; i++) {
		int parked = 1;

		if (__atomic_compare_exchange_n(&turns.parked[i], &parked, 0, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
			syscall(SYS_futex, &turns.parked[i], FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
			return;
		}
	}
}

static void *taker(void *of)
{
	int *word = &turns.parked[(long)of];

	init("taker");
	while (now() < truth->end) {
		struct epoll_event v;
		unsigned long long times;

		park(word);
		if (epoll_wait(turns.events, &v, 1, 200) != 1 || read(turns.timer, &times, 8) != 8) {
			*word = 1;
			unpark_one();
			continue;
		}
		ns r = turns.next, w = late_ones && turns.count % 3 == 1 ? LATE : MS;
		turns.count++;
		turns.next += PERIOD;
		unpark_one();
		work(w);
		job(r);
		__atomic_store_n(word, 1, __ATOMIC_RELEASE);
	}
	unpark_one();
	return 0;
}

static void *take_turns(void)
{
	pthread_t t[TAKERS];
	struct itimerspec every = {at(PERIOD), at(turns.next = now() + PERIOD)};

	turns.events = epoll_create1(0);
	turns.timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
	timerfd_settime(turns.timer, TFD_TIMER_ABSTIME, &every, 0);
	epoll_ctl(turns.events, EPOLL_CTL_ADD, turns.timer, &(struct epoll_event){EPOLLIN, {0}});
	for (long i = 0; i < TAKERS; i++) {
		turns.parked[i] = i > 0;
		pthread_create(&t[i], 0, taker, (void *)i);
	}
	for (int i = 0; i < TAKERS; i++)
		pthread_join(t[i], 0);
	return 0;
}

/* One of three jobs is late, or none. */
static void *taketurns(void *unused)
{
	(void)unused;
	late_ones = 1;
	return take_turns();
}

static void *goodturns(void *unused)
{
	(void)unused;
	return take_turns();
}

/* In time: it takes turns between its timer and what another process sends half a period later. */
static void *inturn(void *unused)
{
	ns first = now() + PERIOD;
	int timer = timerfd_create(CLOCK_MONOTONIC, 0), input = eventfd(0, 0);
	struct itimerspec every = {at(PERIOD), at(first)};
	uint64_t one = 1, times;

	if (!fork()) {
		init("sender");
		pin(0);
		for (ns r = first + PERIOD / 2; r < truth->end + PERIOD; r += PERIOD) {
			until(r);
			if (write(input, &one, 8) != 8)
				_exit(77);
		}
		_exit(0);
	}
	init("inturn");
	timerfd_settime(timer, TFD_TIMER_ABSTIME, &every, 0);
	for (ns r = first; r < truth->end; r += PERIOD) {
		if (read(timer, &times, 8) != 8)
			break;
		work((1 + r / PERIOD * 7 % 5 * 2) * MS);
		job(r);
		if (read(input, &times, 8) != 8)
			break;
		work(MS);
		job(r + PERIOD / 2);
	}
	return unused;
}

/* Late: it asks another thread, works meanwhile, and then waits for the answer. */
static int requests[2], replies[2];

static void *server(void *unused)
{
	char one;

	init("server");
	pin(0);
	fifo(70);
	while (read(requests[0], &one, 1) == 1 && one) {
		usleep(45000);
		if (write(replies[1], &one, 1) != 1)
			break;
	}
	return unused;
}

static void *prefetch(void *unused)
{
	pthread_t other;
	char one = 1;

	if (pipe(requests) || pipe(replies))
		exit(77);
	init("prefetch");
	pthread_create(&other, 0, server, 0);
	for (ns r = now() + PERIOD; r < truth->end; r += PERIOD) {
		until(r);
		if (write(requests[1], &one, 1) != 1)
			break;
		work((1 + r / PERIOD * 7 % 5 * 2) * MS);
		if (read(replies[0], &one, 1) != 1)
			break;
		work(MS);
		job(r);
	}
	one = 0;
	if (write(requests[1], &one, 1) == 1)
		pthread_join(other, 0);
	return unused;
}
