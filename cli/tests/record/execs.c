/* A thread other than the first one of its process executes this program again, which works for 200 ms before its first wait,
 * and then has short jobs. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000ull

static uint64_t now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec * 1000 * MS + at.tv_nsec;
}

static void works(uint64_t ns)
{
	uint64_t end = now() + ns;

	while (now() < end)
		;
}

static void sleeps(uint64_t ns)
{
	struct timespec time = {0, ns};

	nanosleep(&time, 0);
}

static char *program;

static void *executes(void *unused)
{
	char *arguments[] = {program, "again", 0};

	sleeps(20 * MS);
	execv(program, arguments);
	return unused;
}

int main(int count, char **arguments)
{
	struct sched_param priority = {.sched_priority = 70};
	pthread_t thread;

	sched_setscheduler(0, SCHED_FIFO, &priority);
	program = arguments[0];
	if (count > 1) {
		works(200 * MS);
		for (int job = 0; job < 30; job++) {
			sleeps(10 * MS);
			works(MS / 5);
		}
		return 0;
	}
	if (pthread_create(&thread, 0, executes, 0))
		return 1;
	for (;;)
		pause();
}
