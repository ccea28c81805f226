/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once
/* Jobs that pass from thread to thread, and answers that a job waits for. */
#include "hidden.h"

/* A pipeline: no thread is late, the chain is. */
static int pipes[2][2];

static void *stage(void *which)
{
	int n = (int)(long)which;
	ns r;

	init(n ? "last" : "second");
	while (read(pipes[n][0], &r, sizeof(r)) == sizeof(r)) {
		work(25 * MS);
		if (n)
			job(r);
		else if (write(pipes[1][1], &r, sizeof(r)) < 0)
			break;
	}
	return 0;
}

static void *chain(void *unused)
{
	pthread_t t;

	if (pipe(pipes[0]) || pipe(pipes[1]))
		exit(77);
	pthread_create(&t, 0, stage, (void *)0);
	pthread_create(&t, 0, stage, (void *)1);
	init("first");
	PERIODIC((void)w; work(15 * MS); if (write(pipes[0][1], &r, sizeof(r)) < 0) break)
	return unused;
}

/* Waits in poll for one descriptor and in another poll, inside the job, for a second one. */
static void *device(void *fd)
{
	init("device");
	pin(0);
	fifo(40);
	for (ns r = now() + MS; r < truth->end; r += PERIOD) {
		until(r + 45 * MS);
		if (eventfd_write((int)(long)fd, 1))
			break;
	}
	return 0;
}

static void *pollinner(void *unused)
{
	int t = timerfd_create(CLOCK_MONOTONIC, 0), d = eventfd(0, 0);
	unsigned long long times;
	pthread_t thread;
	ns r = now() + MS;
	struct itimerspec every = {at(PERIOD), at(r)};

	init("pollinner");
	timerfd_settime(t, TFD_TIMER_ABSTIME, &every, 0);
	pthread_create(&thread, 0, device, (void *)(long)d);
	for (; r < truth->end - PERIOD; r += PERIOD) {
		struct pollfd release = {t, POLLIN, 0}, answer = {d, POLLIN, 0};

		poll(&release, 1, -1);
		if (read(t, &times, 8) != 8)
			break;
		work(MS);
		poll(&answer, 1, -1);
		if (read(d, &times, 8) != 8)
			break;
		work(MS);
		job(r);
	}
	return unused;
}
