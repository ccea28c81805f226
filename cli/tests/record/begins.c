/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A second thread begins the program that is named, as a launcher in Go may do: it takes the id of the first. */
#include <pthread.h>
#include <unistd.h>

static void *begins(void *words)
{
	usleep(100000);
	execv(*(char **)words, words);
	return words;
}

int main(int count, char **words)
{
	pthread_t second;

	if (count > 1)
		pthread_create(&second, NULL, begins, words + 1);
	pause();
	return 1;
}
