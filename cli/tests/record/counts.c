/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads that count themselves, and write it to the file named first: a line each of name, turns, turns that began
 * without a wait, and page faults. `timerfd` reads a timer of 2 ms and needs 5 ms in each tenth turn; `semaphore` and
 * `socket` are driven by `source`, which posts twice at once in each tenth turn; `faults` touches a fresh page in each
 * tenth turn; `yields` is a SCHED_DEADLINE thread whose jobs end by sched_yield(). */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define TURNS 400

struct truth {
	const char *name;
	void (*drive)(struct truth *self);
	int turns, at_once;
	long faults;
};

static sem_t posted;
static int ends[2];

static long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void busy(long ns)
{
	long long end = now() + ns;

	while (now() < end)
		;
}

static void pause_ns(long ns)
{
	struct timespec pause = { .tv_nsec = ns };

	clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

static void on_timerfd(struct truth *self)
{
	struct itimerspec every = { .it_interval.tv_nsec = 2000000, .it_value.tv_nsec = 2000000 };
	struct pollfd ready = { .fd = timerfd_create(CLOCK_MONOTONIC, 0), .events = POLLIN };
	uint64_t expired;

	timerfd_settime(ready.fd, 0, &every, NULL);
	for (self->turns = 0; self->turns < TURNS; self->turns++) {
		self->at_once += poll(&ready, 1, 0);
		if (read(ready.fd, &expired, sizeof(expired)) < 0)
			break;
		if (self->turns % 10 == 9)
			busy(5000000);
	}
}

static void source(struct truth *self)
{
	for (self->turns = 0; self->turns < TURNS; self->turns++) {
		pause_ns(2000000);
		for (int times = self->turns % 10 == 9 ? 2 : 1; times; times--) {
			sem_post(&posted);
			send(ends[0], "x", 1, 0);
		}
	}
}

static void on_semaphore(struct truth *self)
{
	for (self->turns = 0; self->turns < TURNS * 11 / 10; self->turns++) {
		if (!sem_trywait(&posted))
			self->at_once++;
		else
			sem_wait(&posted);
		busy(100000);
	}
}

static void on_socket(struct truth *self)
{
	char got;

	for (self->turns = 0; self->turns < TURNS * 11 / 10; self->turns++) {
		if (recv(ends[1], &got, 1, MSG_DONTWAIT) == 1)
			self->at_once++;
		else
			recv(ends[1], &got, 1, 0);
		busy(100000);
	}
}

static void on_pages(struct truth *self)
{
	volatile char *fresh = mmap(NULL, TURNS * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	madvise((void *)fresh, TURNS * 4096, MADV_NOHUGEPAGE);
	for (self->turns = 0; self->turns < TURNS; self->turns++) {
		pause_ns(2000000);
		if (self->turns % 10 == 9)
			fresh[self->turns * 4096] = 1;
	}
}

static void on_deadline(struct truth *self)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attributes = { 48, 6, 0, 0, 0, 1000000, 5000000, 5000000 };

	pause_ns(1000000);
	if (syscall(SYS_sched_setattr, 0, &attributes, 0))
		return;
	for (self->turns = 0; self->turns < TURNS / 2; self->turns++) {
		long long yielded;

		busy(200000);
		/* A job that ends after its period gets the next one at once. */
		yielded = now();
		sched_yield();
		self->at_once += now() - yielded < 100000;
	}
}

static void *begin(void *argument)
{
	struct sched_param param = { .sched_priority = 20 };
	struct truth *self = argument;
	struct rusage usage;

	prctl(PR_SET_NAME, self->name);
	if (self->drive != on_deadline)
		pthread_setschedparam(pthread_self(), SCHED_FIFO, &param);
	self->drive(self);
	getrusage(RUSAGE_THREAD, &usage);
	self->faults = usage.ru_minflt + usage.ru_majflt;
	return argument;
}

int main(int count, char **arguments)
{
	struct truth truths[] = {
		{ "timerfd", on_timerfd, 0, 0, 0 },   { "source", source, 0, 0, 0 },
		{ "semaphore", on_semaphore, 0, 0, 0 }, { "socket", on_socket, 0, 0, 0 },
		{ "faults", on_pages, 0, 0, 0 },      { "yields", on_deadline, 0, 0, 0 },
	};
	struct rlimit limit = { .rlim_cur = 200000, .rlim_max = 200000 }; /* a runaway ends after 0.2 s */
	FILE *file = fopen(arguments[count - 1], "w");
	pthread_t threads[6];

	setrlimit(RLIMIT_RTTIME, &limit);
	sem_init(&posted, 0, 0);
	if (!file || socketpair(AF_UNIX, SOCK_DGRAM, 0, ends))
		return 1;
	for (int i = 0; i < 6; i++)
		pthread_create(&threads[i], NULL, begin, &truths[i]);
	for (int i = 0; i < 6; i++) {
		pthread_join(threads[i], NULL);
		fprintf(file, "%s %d %d %ld\n", truths[i].name, truths[i].turns, truths[i].at_once, truths[i].faults);
	}
	return fclose(file);
}
