/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once
/* Event loops: several sources release the jobs of one thread, and a job may be released while another one runs. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

static int timer_from(ns first, ns period)
{
	struct itimerspec every = {.it_value = at(first), .it_interval = at(period)};
	int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);

	timerfd_settime(timer, TFD_TIMER_ABSTIME, &every, 0);
	return timer;
}

static void watch(int epoll, int fd, int number)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = number};

	epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

/* In time: two timers, of which the second one expires while the job of the first one runs. */
static void *twotimers(void *unused)
{
	ns next[2] = {truth->begin + 20 * MS, truth->begin + 40 * MS};
	int epoll = epoll_create1(0), timers[2] = {timer_from(next[0], PERIOD), timer_from(next[1], PERIOD)};
	struct epoll_event event;
	uint64_t times;

	init("twotimers");
	for (int i = 0; i < 2; i++)
		watch(epoll, timers[i], i);
	while (now() < truth->end) {
		if (epoll_wait(epoll, &event, 1, -1) != 1 || read(timers[event.data.u32], &times, 8) != 8)
			continue;
		next[event.data.u32] += times * PERIOD;
		work(event.data.u32 ? 15 * MS : 30 * MS);
		job(next[event.data.u32] - PERIOD);
	}
	return unused;
}

/* In time: SIGALRM of setitimer, which comes while the job before it runs. */
static void *itimer(void *unused)
{
	struct itimerval every = {{0, 20000}, {0, 20000}};
	ns release = now() + 20 * MS;
	sigset_t set;
	int taken;

	init("itimer");
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	setitimer(ITIMER_REAL, &every, 0);
	for (int k = 0; now() < truth->end; k++, release += 20 * MS) {
		sigwait(&set, &taken);
		work(k % 5 == 0 ? 30 * MS : k % 5 == 1 ? 12 * MS : MS);
		job(release);
	}
	return unused;
}

/* In time: a timer, and messages of another thread that come while the job of the timer runs, or after it. */
static _Atomic ns sent_at;

static void *messenger(void *to)
{
	uint64_t one = 1;

	init("messenger");
	pin(0);
	for (ns k = 0, r = truth->begin + 40 * MS; r < truth->end - PERIOD; r += PERIOD, k++) {
		until(r + (k + 1) % 2 * 25 * MS);
		sent_at = now();
		if (write(*(int *)to, &one, 8) != 8)
			break;
	}
	return 0;
}

static void *loopmix(void *unused)
{
	ns next = truth->begin + 20 * MS, release;
	int epoll = epoll_create1(0), timer = timer_from(next, PERIOD), messages = eventfd(0, EFD_NONBLOCK);
	struct epoll_event event;
	pthread_t other;
	uint64_t times;

	init("loopmix");
	watch(epoll, timer, 0);
	watch(epoll, messages, 1);
	pthread_create(&other, 0, messenger, &messages);
	while (now() < truth->end) {
		if (epoll_wait(epoll, &event, 1, -1) != 1)
			continue;
		if (read(event.data.u32 ? messages : timer, &times, 8) != 8)
			continue;
		release = event.data.u32 ? sent_at : next;
		next += event.data.u32 ? 0 : times * PERIOD;
		work(event.data.u32 ? 15 * MS : 30 * MS);
		job(release);
	}
	pthread_join(other, 0);
	return unused;
}

/* Jobs of 44 ms of work in two halves: a packet releases each, by the loopback interface, which raises a softirq. */
static struct sockaddr_in addresses[2];

static void *sender(void *second)
{
	int out = socket(AF_INET, SOCK_DGRAM, 0);
	long which = (long)second;

	init("sender");
	fifo(70);
	for (ns r = truth->begin + 20 * MS + which * PERIOD / 2; r < truth->end; r += PERIOD) {
		until(r);
		sendto(out, &r, sizeof(r), 0, (void *)&addresses[which], sizeof(addresses[which]));
	}
	return 0;
}

static void *udphalf(void *unused)
{
	ns release = 0, sent;
	int epoll = epoll_create1(0), in[2];
	struct epoll_event event;
	pthread_t senders[2];

	init("udphalf");
	for (long i = 0; i < 2; i++) {
		socklen_t length = sizeof(addresses[i]);

		in[i] = socket(AF_INET, SOCK_DGRAM, 0);
		addresses[i] = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
		if (bind(in[i], (void *)&addresses[i], length) || getsockname(in[i], (void *)&addresses[i], &length))
			exit(77);
		watch(epoll, in[i], i);
	}
	for (long i = 0; i < 2; i++)
		pthread_create(&senders[i], 0, sender, (void *)i);
	while (now() < truth->end - PERIOD) {
		if (epoll_wait(epoll, &event, 1, 100) != 1 || recv(in[event.data.u32], &sent, sizeof(sent), 0) < 0)
			continue;
		release = event.data.u32 ? release : sent;
		work(22 * MS);
		if (event.data.u32 && release)
			job(release);
	}
	return unused;
}

/* Late: jobs of six steps of 10 ms with one sleep, and a pause of only 14 ms until the next job. */
static void *shortgap(void *unused)
{
	ns begin = now() + MS;

	init("shortgap");
	for (ns k = 0, r = begin; r < truth->end; k++, r = begin + k / 6 * 64 * MS) {
		until(r + k % 6 * 10 * MS);
		work(8 * MS);
		if (k % 6 == 5)
			job(r);
	}
	return unused;
}

/* Late: jobs that poll each millisecond, each as long as it takes, and a pause of 25 ms until the next one. */
static void *pollgap(void *unused)
{
	ns r = now() + MS, next = r;

	init("pollgap");
	for (unsigned dice = 7, polls = 45; r < truth->end;) {
		until(next);
		next += MS;
		if (--polls)
			continue;
		work(4 * MS);
		job(r);
		dice = dice * 1103515245 + 12345;
		polls = 35 + (dice >> 16) % 20;
		r = next += 24 * MS;
	}
	return unused;
}

/* In time: jobs of 30 ms each 50 ms, released by a sleep and by a timer in turn. */
static void *alternate(void *unused)
{
	int timer = timerfd_create(CLOCK_MONOTONIC, 0);
	uint64_t times;

	init("alternate");
	for (ns k = 0, r = now() + MS; r < truth->end; k++, r += PERIOD / 2) {
		struct itimerspec once = {.it_value = at(r)};

		if (k % 2) {
			timerfd_settime(timer, TFD_TIMER_ABSTIME, &once, 0);
			if (read(timer, &times, 8) != 8)
				break;
		} else {
			until(r);
		}
		work(30 * MS);
		job(r);
	}
	return unused;
}

/* Late: jobs of six steps of 10 ms with one sleep, one job after the other without a pause. */
static void *nopause(void *unused)
{
	ns begin = now() + MS;

	init("nopause");
	for (ns k = 0; begin + k * 10 * MS < truth->end; k++) {
		until(begin + k * 10 * MS);
		work(8 * MS);
		if (k % 6 == 5)
			job(begin + (k - 5) * 10 * MS);
	}
	return unused;
}

/* In time: a timer, and messages that always come while its job runs, so that they never wake the thread. */
static void *inward(void *to)
{
	uint64_t one = 1;

	init("inward");
	pin(0);
	for (ns r = truth->begin + 40 * MS; r < truth->end - PERIOD; r += PERIOD) {
		until(r);
		sent_at = now();
		if (write(*(int *)to, &one, 8) != 8)
			break;
	}
	return 0;
}

static void *quietsource(void *unused)
{
	ns next = truth->begin + 20 * MS, release;
	int epoll = epoll_create1(0), timer = timer_from(next, PERIOD), messages = eventfd(0, EFD_NONBLOCK);
	struct epoll_event event;
	pthread_t other;
	uint64_t times;

	init("quietsource");
	watch(epoll, timer, 0);
	watch(epoll, messages, 1);
	pthread_create(&other, 0, inward, &messages);
	while (now() < truth->end) {
		if (epoll_wait(epoll, &event, 1, -1) != 1)
			continue;
		if (read(event.data.u32 ? messages : timer, &times, 8) != 8)
			continue;
		release = event.data.u32 ? sent_at : next;
		next += event.data.u32 ? 0 : times * PERIOD;
		work(event.data.u32 ? 15 * MS : 30 * MS);
		job(release);
	}
	pthread_join(other, 0);
	return unused;
}

/* The same with the timeout of poll instead of a timer: one descriptor, which never wakes it. */
static void *quietwait(void *unused)
{
	ns next = truth->begin + 20 * MS;
	int messages = eventfd(0, EFD_NONBLOCK);
	struct pollfd in = {messages, POLLIN, 0};
	pthread_t other;
	uint64_t times;

	init("quietwait");
	pthread_create(&other, 0, inward, &messages);
	while (now() < truth->end) {
		ns release = next, left = next > now() ? next - now() : 0;
		struct timespec timeout = at(left);

		if (ppoll(&in, 1, &timeout, 0) == 1) {
			if (read(messages, &times, 8) == 8) {
				work(15 * MS);
				job(sent_at);
			}
			continue;
		}
		next += PERIOD;
		work(30 * MS);
		job(release);
	}
	pthread_join(other, 0);
	return unused;
}

/* In time: it sleeps for half of the period, and then looks at the clock. */
static void *clockspin(void *unused)
{
	struct timespec half = at(PERIOD / 2);

	init("clockspin");
	for (ns r = truth->begin + PERIOD; r < truth->end; r += PERIOD) {
		nanosleep(&half, 0);
		while (now() < r)
			;
		work(MS);
		job(r);
	}
	return unused;
}

/* In time: it sleeps for half of the period, and then looks at a flag that another thread sets. */
static void *setter(void *unused)
{
	init("setter");
	pin(0);
	for (ns r = truth->begin + PERIOD; r < truth->end + PERIOD; r += PERIOD) {
		until(r);
		sent_at = now();
	}
	return unused;
}

static void *flagspin(void *unused)
{
	struct timespec half = at(PERIOD / 2);
	pthread_t other;

	init("flagspin");
	pthread_create(&other, 0, setter, 0);
	for (ns seen = 0; now() < truth->end;) {
		nanosleep(&half, 0);
		while (sent_at == seen)
			;
		seen = sent_at;
		work(MS);
		job(seen);
	}
	return unused;
}

/* In time: it looks at the clock, and waits only for a mutex, which another thread holds for half of the time. */
static pthread_mutex_t inherits;

static void *keeper(void *unused)
{
	init("keeper");
	pin(0);
	for (ns r = truth->begin + PERIOD; r < truth->end - PERIOD; r += PERIOD) {
		until(r + 5 * MS);
		pthread_mutex_lock(&inherits);
		until(r + PERIOD / 2);
		pthread_mutex_unlock(&inherits);
	}
	return unused;
}

static void *mutexspin(void *unused)
{
	pthread_mutexattr_t pi;
	pthread_t other;

	init("mutexspin");
	pthread_mutexattr_init(&pi);
	pthread_mutexattr_setprotocol(&pi, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&inherits, &pi);
	pthread_create(&other, 0, keeper, 0);
	until(truth->begin + PERIOD / 2); /* the keeper leaves this CPU */
	for (ns r = truth->begin + PERIOD; r < truth->end - PERIOD; r += PERIOD) {
		while (now() < r)
			;
		work(MS);
		job(r);
		while (now() < r + 10 * MS)
			;
		pthread_mutex_lock(&inherits);
		pthread_mutex_unlock(&inherits);
	}
	return unused;
}
