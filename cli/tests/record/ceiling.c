/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* `owner` (RT 20) computes for 3 ms, 50 times, with a mutex whose priority ceiling is RT 90; `ctrl` (RT 80), on the same CPU,
 * is released 1 ms after it has the mutex, and waits 2 ms for the CPU. */
#include "threads.h"

enum { ROUNDS = 50, PERIOD = 10000000 };

static pthread_mutex_t mutex;
static long long begin;

static void sleep_until(long long at)
{
	struct timespec t = { at / 1000000000, at % 1000000000 };

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static void *owner(void *none)
{
	become("owner", 20);
	for (int round = 0; round < ROUNDS; round++) {
		sleep_until(begin + (long long)round * PERIOD);
		pthread_mutex_lock(&mutex);
		for (long long end = now() + 3000000; now() < end;)
			;
		pthread_mutex_unlock(&mutex);
	}
	return none;
}

int main(void)
{
	pthread_mutexattr_t ceiling;
	pthread_t thread;

	pthread_mutexattr_init(&ceiling);
	pthread_mutexattr_setprotocol(&ceiling, PTHREAD_PRIO_PROTECT);
	pthread_mutexattr_setprioceiling(&ceiling, 90);
	pthread_mutex_init(&mutex, &ceiling);
	begin = now() + 200000000;
	pthread_create(&thread, NULL, owner, NULL);
	become("ctrl", 80);
	for (int round = 0; round < ROUNDS; round++)
		sleep_until(begin + (long long)round * PERIOD + 1000000);
	pthread_join(thread, NULL);
	return 0;
}
