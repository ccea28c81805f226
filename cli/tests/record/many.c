/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* More threads than are kept apart at a time: 700, each of which sleeps five times, and ends when all have. */
#include <pthread.h>
#include <unistd.h>

static pthread_barrier_t all;

static void *sleeps(void *unused)
{
	for (int turn = 0; turn < 5; turn++)
		usleep(50000);
	pthread_barrier_wait(&all);
	return unused;
}

int main(void)
{
	static pthread_t threads[700];

	pthread_barrier_init(&all, NULL, 700);
	for (int i = 0; i < 700; i++)
		pthread_create(&threads[i], NULL, sleeps, NULL);
	for (int i = 0; i < 700; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
