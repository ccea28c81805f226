/* A real-time thread that waits behind an ordinary one for 10 ms of each 50 ms, at a mutex whose place is known:
   gate (a variable that is not in the file), valued (one that is), or the heap. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

pthread_mutex_t gate;
struct { char before[24]; pthread_mutex_t lock; } valued = { .before = "not zero" };
static pthread_mutex_t *mutex = &gate;

static void wait_ms(long ms)
{
	struct timespec time = { ms / 1000, ms % 1000 * 1000000 };
	nanosleep(&time, NULL);
}

static void *control(void *unused)
{
	struct timespec next;
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (;;) {
		next.tv_nsec += 50000000;
		if (next.tv_nsec >= 1000000000)
			next.tv_nsec -= 1000000000, next.tv_sec++;
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
		pthread_mutex_lock(mutex);
		pthread_mutex_unlock(mutex);
	}
	return unused;
}

int main(int argc, char **argv)
{
	pthread_attr_t attributes;
	struct sched_param priority = { 60 };
	pthread_t thread;
	if (argc > 1 && !strcmp(argv[1], "valued"))
		mutex = &valued.lock;
	if (argc > 1 && !strcmp(argv[1], "heap"))
		mutex = malloc(sizeof *mutex);
	pthread_mutex_init(mutex, NULL);
	pthread_attr_init(&attributes);
	pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
	pthread_attr_setschedpolicy(&attributes, SCHED_FIFO);
	pthread_attr_setschedparam(&attributes, &priority);
	if (pthread_create(&thread, &attributes, control, NULL))
		return 1;
	for (int turn = 0; turn < 40; turn++) {
		pthread_mutex_lock(mutex);
		wait_ms(35);
		pthread_mutex_unlock(mutex);
		wait_ms(5);
	}
	return 0;
}
