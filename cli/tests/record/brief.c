/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* More threads than are kept apart, one after the other: 600 real-time ones, each of which sleeps three times and ends. Then
 * `control`, of which one job of 50 takes 8 ms: the kernel may hide a switch of one. */
#include "threads.h"

enum { MS = 1000000 };

static void *brief(void *unused)
{
	become("brief", 10);
	for (int turn = 0; turn < 3; turn++)
		usleep(200);
	return unused;
}

static void *control(void *unused)
{
	become("control", 80);
	long long next = now() + 10 * MS;

	for (int turn = 0; turn < 200; turn++, next += 10 * MS) {
		struct timespec t = { .tv_sec = next / 1000000000, .tv_nsec = next % 1000000000 };
		long long end;

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
		end = now() + (turn % 50 == 25 ? 8 * MS : MS / 5);
		while (now() < end)
			;
	}
	return unused;
}

int main(void)
{
	pthread_t thread;

	for (int i = 0; i < 600; i++) {
		pthread_create(&thread, NULL, brief, NULL);
		pthread_join(thread, NULL);
	}
	pthread_create(&thread, NULL, control, NULL);
	return pthread_join(thread, NULL);
}
