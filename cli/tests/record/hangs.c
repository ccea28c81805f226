/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A thread of 200 Hz whose last turn is never over. `spins`: it computes on; `starves`: a thread of higher priority takes
 * its CPU; `relay`: and 1.3 s later an even higher one, until the recording is over; `ends`: it computes for 50 ms and ends. `returns`: one of its turns, in the middle, takes 1.7 s. `seldom`: 8 turns,
 * 1.3 s apart; the last but one takes 60 ms. On stdout, one line each: how many ns a
 * turn took from its release, if it was more than 20 ms. */
#include "threads.h"
#include <stdio.h>
#include <string.h>

static void runs(long long ns)
{
	long long end = now() + ns;

	while (now() < end)
		;
}

static void turns_of(int count, long long period)
{
	static long long release;
	long long next = now();

	become("hangs", 20);
	for (int turn = 0; turn < count; turn++) {
		struct timespec until;

		if (release && now() - release > 20000000)
			dprintf(1, "%lld\n", now() - release);
		release = next += period;
		until.tv_sec = next / 1000000000;
		until.tv_nsec = next % 1000000000;
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
		runs(50000);
	}
}

static void *turns(void *count)
{
	turns_of((long)count, 5000000);
	return NULL;
}

static void *relay(void *unused)
{
	(void)unused;
	become("other", 40);
	usleep(1800000);
	runs(2700000000LL);
	return NULL;
}

int main(int count, char **words)
{
	const char *what = count > 1 ? words[1] : "ends";
	pthread_t victim;

	if (!strcmp(what, "relay"))
		pthread_create(&victim, NULL, relay, NULL);
	if (!strcmp(what, "starves") || !strcmp(what, "relay")) {
		pthread_create(&victim, NULL, turns, (void *)100000L);
		usleep(500000);
		become("hog", 30);
		runs(4000000000LL);
		_exit(0);
	}
	if (!strcmp(what, "seldom")) {
		turns_of(7, 1300000000);
		runs(60000000);
		turns_of(1, 1300000000);
		return 0;
	}
	turns((void *)100L);
	if (!strcmp(what, "returns")) {
		runs(1700000000);
		turns((void *)100L);
		return 0;
	}
	runs(strcmp(what, "ends") ? 4000000000LL : 50000000LL);
	return 0;
}
