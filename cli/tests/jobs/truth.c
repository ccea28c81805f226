/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A loop whose late jobs have a cause that is known because it is built in:
 *
 *   truth CAUSE[+CAUSE] CYCLES
 *
 * `control` (FIFO 80) wakes up 500 times a second; each 50th job has the cause. `innocent` (FIFO 70, on the other CPU
 * where there is one) has nothing to do with it. Printed, after the last job: each job of 1 ms and more, with its release
 * (CLOCK_MONOTONIC) and how long it took until just before its next sleep, as the program itself measures it. Every thread
 * is bounded in time. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { PERIOD = 2000000, EVERY = 50, MS = 1000000, PAGES = 1024, PAGE = 4096 };

static const char *cause;
static long cycles;
static struct timespec start;
static pthread_mutex_t outer, inner;
static pthread_mutex_t cond_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ready = PTHREAD_COND_INITIALIZER;
static sem_t begin;
static int is_ready;
static volatile int done;
static long late[10000], late_ns[10000], lates;

static long now(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}

/* By the clock: what preempts it takes time from it. */
static void spin_until(long at)
{
	while (now(CLOCK_MONOTONIC) < at)
		;
}

/* Of its own CPU time. */
static void work(long ns)
{
	long end = now(CLOCK_THREAD_CPUTIME_ID) + ns;

	while (now(CLOCK_THREAD_CPUTIME_ID) < end)
		;
}

static long release(long cycle)
{
	return start.tv_sec * 1000000000L + start.tv_nsec + cycle * PERIOD;
}

static void sleep_until(long at)
{
	struct timespec time = { at / 1000000000, at % 1000000000 };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL))
		;
}

static void setup(const char *name, int priority, int cpu)
{
	struct sched_param param = { .sched_priority = priority };
	cpu_set_t set;

	prctl(PR_SET_NAME, name);
	CPU_ZERO(&set);
	CPU_SET(cpu % sysconf(_SC_NPROCESSORS_ONLN), &set);
	pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
	if (priority && pthread_setschedparam(pthread_self(), SCHED_FIFO, &param))
		exit(3);
}

/* Whether it is one of the causes: `mutex`, or of two `mutex+compute`. */
static int is(const char *what)
{
	size_t length = strlen(what);

	for (const char *at = cause; (at = strstr(at, what)); at += length)
		if ((at == cause || at[-1] == '+') && (at[length] == 0 || at[length] == '+'))
			return 1;
	return 0;
}

/* Has the mutex 0.5 ms before the release, and needs 2 ms of CPU time with it. */
static void *holder(void *unused)
{
	setup("holder", 0, 1);
	for (long cycle = EVERY; cycle < cycles; cycle += EVERY) {
		sleep_until(release(cycle) - MS / 2);
		pthread_mutex_lock(&outer);
		work(2 * MS);
		pthread_mutex_unlock(&outer);
	}
	return unused;
}

/* Runs for 3 ms, 0.5 ms after the release. */
static void *hog(void *priority)
{
	setup("hog", (int)(long)priority, 1);
	for (long cycle = EVERY; cycle < cycles; cycle += EVERY) {
		sleep_until(release(cycle) + MS / 2);
		spin_until(release(cycle) + MS / 2 + 3 * MS);
	}
	return priority;
}

/* The middle of a chain: has `outer`, waits for `inner`. */
static void *middle(void *unused)
{
	setup("middle", 30, 0);
	for (long cycle = EVERY; cycle < cycles; cycle += EVERY) {
		sleep_until(release(cycle) - MS / 4);
		pthread_mutex_lock(&outer);
		pthread_mutex_lock(&inner);
		pthread_mutex_unlock(&inner);
		pthread_mutex_unlock(&outer);
	}
	return unused;
}

/* Its end: has `inner`. */
static void *last(void *unused)
{
	setup("last", 20, 1);
	for (long cycle = EVERY; cycle < cycles; cycle += EVERY) {
		sleep_until(release(cycle) - MS / 2);
		pthread_mutex_lock(&inner);
		work(4 * MS);
		pthread_mutex_unlock(&inner);
	}
	return unused;
}

static void *worker(void *unused)
{
	setup("worker", 60, 1);
	for (;;) {
		sem_wait(&begin);
		if (done)
			return unused;
		work(3 * MS);
		pthread_mutex_lock(&cond_lock);
		is_ready = 1;
		pthread_cond_signal(&ready);
		pthread_mutex_unlock(&cond_lock);
	}
}

/* Signal of `signals`: its handler needs 3 ms of CPU time. */
static void handler(int unused)
{
	(void)unused;
	work(3 * MS);
}

static pthread_t controlled;

static void *signals(void *unused)
{
	setup("sender", 60, 0);
	for (long cycle = EVERY; cycle < cycles; cycle += EVERY) {
		sleep_until(release(cycle) + MS / 10);
		pthread_kill(controlled, SIGUSR1);
	}
	return unused;
}

static void *innocent(void *unused)
{
	setup("innocent", 70, 0);
	for (long cycle = 1; cycle < cycles; cycle++) {
		sleep_until(release(cycle) + MS / 5);
		work(20000);
	}
	return unused;
}

static void job(int file)
{
	struct timespec two_ms = { 0, 2 * MS };
	static char *fresh;
	static const char buffer[4096];

	if (is("mutex") || is("pi") || is("chain")) {
		pthread_mutex_lock(&outer);
		pthread_mutex_unlock(&outer);
	}
	if (is("compute"))
		work(3 * MS);
	if (is("preempted"))
		work(MS);
	if (is("signal"))
		work(MS);
	if (is("populate")) {
		fresh = mmap(NULL, 2 * PAGES * PAGE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		munmap(fresh, 2 * PAGES * PAGE);
	}
	if (is("sleep"))
		nanosleep(&two_ms, NULL);
	if (is("fault")) {
		fresh = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		madvise(fresh, PAGES * PAGE, MADV_NOHUGEPAGE);
		for (long page = 0; page < PAGES; page++)
			fresh[page * PAGE] = 1;
		munmap(fresh, PAGES * PAGE);
	}
	if (is("cow")) { /* private pages of a file, there to be read */
		if (ftruncate(file, PAGES * PAGE))
			exit(4);
		fresh = mmap(NULL, PAGES * PAGE, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file, 0);
		mprotect(fresh, PAGES * PAGE, PROT_READ | PROT_WRITE);
		for (long page = 0; page < PAGES; page++)
			fresh[page * PAGE] = 1;
		munmap(fresh, PAGES * PAGE);
	}
	if (is("file")) {
		/* Little to copy: it waits for the disk, also where memory is slow. */
		for (int times = 0; times < 16; times++)
			if (pwrite(file, buffer, sizeof(buffer), 0) != (ssize_t)sizeof(buffer) || fsync(file))
				exit(4);
	}
	if (is("cond")) {
		sem_post(&begin);
		pthread_mutex_lock(&cond_lock);
		while (!is_ready)
			pthread_cond_wait(&ready, &cond_lock);
		is_ready = 0;
		pthread_mutex_unlock(&cond_lock);
	}
}

static void *control(void *unused)
{
	int file = open("truth.data", O_RDWR | O_CREAT | O_TRUNC, 0600);

	setup("control", 80, 1);
	for (long cycle = 1; cycle < cycles; cycle++) {
		long took;

		sleep_until(release(cycle));
		if (cycle % EVERY == 0)
			job(file);
		else
			work(20000);
		took = now(CLOCK_MONOTONIC) - release(cycle);
		if (took >= MS && lates < 10000) {
			late[lates] = cycle;
			late_ns[lates++] = took;
		}
	}
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t threads[8];
	pthread_mutexattr_t attributes;
	int count = 0;

	if (argc < 3)
		return 1;
	cause = argv[1];
	cycles = atol(argv[2]);
	pthread_mutexattr_init(&attributes);
	if (is("pi"))
		pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&outer, &attributes);
	pthread_mutex_init(&inner, &attributes);
	sem_init(&begin, 0, 0);
	clock_gettime(CLOCK_MONOTONIC, &start);
	start.tv_sec++;
	pthread_create(&threads[count++], NULL, innocent, NULL);
	if (is("mutex") || is("pi")) {
		pthread_create(&threads[count++], NULL, holder, NULL);
		pthread_create(&threads[count++], NULL, hog, (void *)50L);
	}
	if (is("preempted"))
		pthread_create(&threads[count++], NULL, hog, (void *)90L);
	if (is("chain")) {
		pthread_create(&threads[count++], NULL, middle, NULL);
		pthread_create(&threads[count++], NULL, last, NULL);
	}
	if (is("cond"))
		pthread_create(&threads[count++], NULL, worker, NULL);
	signal(SIGUSR1, handler);
	pthread_create(&threads[count++], NULL, control, NULL);
	if (is("signal")) {
		controlled = threads[count - 1];
		pthread_create(&threads[count], NULL, signals, NULL);
		pthread_join(threads[count], NULL);
	}
	pthread_join(threads[--count], NULL);
	done = 1;
	sem_post(&begin);
	while (count)
		pthread_join(threads[--count], NULL);
	for (long nth = 0; nth < lates; nth++)
		printf("late %ld %ld %ld\n", late[nth], release(late[nth]), late_ns[nth]);
	unlink("truth.data");
	return 0;
}
