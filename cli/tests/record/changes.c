/* changes: thread `changes` sleeps until absolute times, 200 jobs, then reads a timerfd, 200 jobs, one of 70 ms.
 * rearm: thread `rearm` waits for a timerfd that another thread arms for each job, once 60 ms after it was due.
 * interrupted: thread `interrupted` has 30 jobs, and sleeps on after each of many signals, until the same time.
 * remaining: the same of thread `remaining`, for the rest of a relative time. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000ull

static uint64_t now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec * 1000 * MS + at.tv_nsec;
}

static struct timespec time_of(uint64_t at)
{
	return (struct timespec){at / (1000 * MS), at % (1000 * MS)};
}

static void works(uint64_t ns)
{
	uint64_t end = now() + ns;

	while (now() < end)
		;
}

static void sleeps_until(uint64_t at)
{
	struct timespec until = time_of(at);

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, 0) == EINTR)
		;
}

static void arms(int timer, uint64_t at, uint64_t every)
{
	struct itimerspec when = {time_of(every), time_of(at)};

	timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, 0);
}

static void changes(void)
{
	uint64_t at = now() + 20 * MS, expired;
	int timer = timerfd_create(CLOCK_MONOTONIC, 0);

	for (int job = 0; job < 200; job++, at += 5 * MS) {
		sleeps_until(at);
		works(MS / 5);
	}
	arms(timer, at, 5 * MS);
	for (int job = 0; job < 200; job++) {
		if (read(timer, &expired, 8) != 8)
			return;
		works(job == 100 ? 70 * MS : MS / 5);
	}
}

static int timer, done[2];
static uint64_t due;

static void *arms_for_another(void *unused)
{
	char one;

	prctl(PR_SET_NAME, "armer");
	for (int job = 0; read(done[0], &one, 1) == 1; job++) {
		if (job == 150)
			sleeps_until(due + 60 * MS);
		arms(timer, due, 0);
	}
	return unused;
}

static void rearm(void)
{
	uint64_t expired;
	pthread_t armer;

	timer = timerfd_create(CLOCK_MONOTONIC, 0);
	due = now() + 20 * MS;
	arms(timer, due, 0);
	if (pipe(done) || pthread_create(&armer, 0, arms_for_another, 0))
		return;
	for (int job = 0; job < 300; job++) {
		if (read(timer, &expired, 8) != 8)
			return;
		works(MS / 5);
		due = now() + (3 + job % 3) * MS;
		if (write(done[1], "1", 1) != 1)
			return;
	}
	close(done[1]);
	pthread_join(armer, 0);
}

static void handles(int signal)
{
	(void)signal;
}

static void sleeps_for(uint64_t ns)
{
	struct timespec rest = time_of(ns);

	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &rest, &rest) == EINTR)
		;
}

static void interrupted(int relative)
{
	struct itimerval often = {{0, 7000}, {0, 7000}};
	uint64_t at = now() + 50 * MS;

	signal(SIGALRM, handles);
	setitimer(ITIMER_REAL, &often, 0);
	for (int job = 0; job < 30; job++, at += 50 * MS) {
		if (relative)
			sleeps_for(50 * MS);
		else
			sleeps_until(at);
		works(MS);
	}
}

int main(int count, char **arguments)
{
	struct sched_param priority = {.sched_priority = 70};
	const char *what = count > 1 ? arguments[1] : "";

	sched_setscheduler(0, SCHED_FIFO, &priority);
	prctl(PR_SET_NAME, what);
	if (!strcmp(what, "changes"))
		changes();
	else if (!strcmp(what, "rearm"))
		rearm();
	else
		interrupted(!strcmp(what, "remaining"));
	return 0;
}
