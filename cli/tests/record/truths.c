/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads that know the truth about themselves, on absolute timers, and write it to the file named first: a line each of
 * name, turns, and how often the next release had passed when it was slept for. `overruns` needs 2.5 periods in each
 * tenth turn; `migrates` changes its CPU in each turn; `steps` sleeps on a clock that is set meanwhile (second argument:
 * by so many ms, and back); `shortly` sleeps for so short a time that most timers come while it is on its way to sleep. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

struct truth {
	const char *name;
	clockid_t clock;
	long period;
	int turns, overruns;
	long long busy;
	int migrates, shortly;
};

static long long now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void *loop(void *argument)
{
	struct truth *self = argument;
	struct sched_param param = { .sched_priority = 20 };
	long long next;

	prctl(PR_SET_NAME, self->name);
	pthread_setschedparam(pthread_self(), SCHED_FIFO, &param);
	next = now(self->clock);
	for (int turn = 0; turn < self->turns; turn++) {
		struct timespec until;
		long long end;

		next = (self->shortly ? now(self->clock) : next) + self->period;
		until.tv_sec = next / 1000000000;
		until.tv_nsec = next % 1000000000;
		self->overruns += now(self->clock) > next;
		clock_nanosleep(self->clock, TIMER_ABSTIME, &until, NULL);
		if (self->migrates) {
			cpu_set_t cpus;

			CPU_ZERO(&cpus);
			CPU_SET(turn & 1, &cpus);
			sched_setaffinity(0, sizeof(cpus), &cpus);
		}
		end = now(CLOCK_MONOTONIC) + self->busy;
		while (turn % 10 == 9 && now(CLOCK_MONOTONIC) < end)
			;
	}
	return argument;
}

static void step(long ms)
{
	struct timex by = { .modes = ADJ_SETOFFSET | ADJ_NANO };

	by.time.tv_sec = ms < 0 ? -1 : 0;
	by.time.tv_usec = (ms < 0 ? 1000 + ms : ms) * 1000000;
	adjtimex(&by);
}

int main(int count, char **arguments)
{
	struct truth truths[] = {
		{ "overruns", CLOCK_MONOTONIC, 2000000, 800, 0, 5000000, 0, 0 },
		{ "migrates", CLOCK_MONOTONIC, 1000000, 1600, 0, 0, 1, 0 },
		{ "steps", CLOCK_REALTIME, 5000000, 300, 0, 0, 0, 0 },
		{ "shortly", CLOCK_MONOTONIC, 2000, 2000, 0, 0, 0, 1 },
	};
	struct rlimit limit = { .rlim_cur = 200000, .rlim_max = 200000 }; /* a runaway ends after 0.2 s */
	pthread_t threads[4];
	FILE *file = fopen(arguments[1], "w");

	setrlimit(RLIMIT_RTTIME, &limit);
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, loop, &truths[i]);
	for (int times = 0; count > 2 && times < 3; times++) {
		usleep(300000);
		step(atol(arguments[2]));
		usleep(20000);
		step(-atol(arguments[2]));
	}
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		fprintf(file, "%s %d %d\n", truths[i].name, truths[i].turns, truths[i].overruns);
	}
	return fclose(file);
}
