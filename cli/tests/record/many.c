/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* More threads than are kept apart: 700, each of which sleeps five times. */
#include <pthread.h>
#include <unistd.h>

static void *sleeps(void *unused)
{
	for (int turn = 0; turn < 5; turn++)
		usleep(50000);
	return unused;
}

int main(void)
{
	static pthread_t threads[700];

	for (int i = 0; i < 700; i++)
		pthread_create(&threads[i], NULL, sleeps, NULL);
	for (int i = 0; i < 700; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
