/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads that are driven in four ways: `relative` sleeps 4 ms and posts a semaphore to `semaphore`; `timerfd` reads a
 * timer of 3 ms and sends a datagram to `socket`. Ends after 2 s. */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static sem_t posted;
static int ends[2];

static void enter(const char *name)
{
	struct sched_param param = { .sched_priority = 20 };

	prctl(PR_SET_NAME, name);
	pthread_setschedparam(pthread_self(), SCHED_FIFO, &param);
}

static void *relative(void *unused)
{
	struct timespec pause = { .tv_nsec = 4000000 };

	enter("relative");
	for (int turn = 0; turn < 500; turn++) {
		clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
		sem_post(&posted);
	}
	return unused;
}

static void *on_semaphore(void *unused)
{
	enter("semaphore");
	for (int turn = 0; turn < 500; turn++)
		sem_wait(&posted);
	return unused;
}

static void *on_timerfd(void *unused)
{
	struct itimerspec every = { .it_interval.tv_nsec = 3000000, .it_value.tv_nsec = 3000000 };
	int timer = timerfd_create(CLOCK_MONOTONIC, 0);
	uint64_t expired;

	enter("timerfd");
	timerfd_settime(timer, 0, &every, NULL);
	for (int turn = 0; turn < 600; turn++)
		if (read(timer, &expired, sizeof(expired)) < 0 || send(ends[0], "x", 1, 0) < 0)
			break;
	send(ends[0], "", 0, 0);
	return unused;
}

static void *on_socket(void *unused)
{
	char byte;

	enter("socket");
	while (recv(ends[1], &byte, 1, 0) > 0)
		;
	return unused;
}

int main(void)
{
	void *(*bodies[])(void *) = { relative, on_semaphore, on_timerfd, on_socket };
	struct rlimit limit = { .rlim_cur = 200000, .rlim_max = 200000 }; /* a runaway ends after 0.2 s */
	pthread_t threads[4];

	setrlimit(RLIMIT_RTTIME, &limit);
	sem_init(&posted, 0, 0);
	if (socketpair(AF_UNIX, SOCK_DGRAM, 0, ends))
		return 1;
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, bodies[i], NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
