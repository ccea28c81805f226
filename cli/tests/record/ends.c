/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* ends MODE: a thread whose jobs end in more than one place. `turns` is released by time and, between, by a semaphore that
 * another thread of its process posts, in turn; in `queued` some posts come before the thread waits. `asks` has one
 * job a period, which posts to `first`, which posts to `second`, which answers. `moved` is moved to the CPU of a more urgent
 * thread by a third process. At the end `TRUTH jobs late max_ns`. */
#include "hidden.h"

static sem_t posted, asked, passed;
static _Atomic ns releases[1024];
static _Atomic unsigned released;
static unsigned taken;
static ns begin, offset, from;

static void take(ns t)
{
	while (sem_wait(&posted))
		;
	work(t);
	job(releases[taken++]);
}

static void *poster(void *unused)
{
	init("poster");
	pin(0);
	for (ns r = from + offset; r < truth->end + 3 * PERIOD; r += PERIOD) {
		until(r);
		releases[released++] = now();
		sem_post(&posted);
	}
	return unused;
}

static pthread_t thread(void *(*of)(void *))
{
	pthread_t t;

	pthread_create(&t, 0, of, 0);
	return t;
}

static void take_turns(ns after)
{
	from = begin;
	offset = after;
	thread(poster);
	for (ns k = 0, r = begin; r < truth->end; k++, r += PERIOD) {
		until(r);
		work(k % 3 == 1 ? 45 * MS : (1 + k % 3) * MS);
		job(r);
		take((1 + k % 2) * MS);
	}
}

static void turns(void) { take_turns(80 * MS); }
static void queued(void) { take_turns(44 * MS); }

static void *first(void *unused)
{
	init("first");
	pin(0);
	while (!sem_wait(&asked))
		sem_post(&passed);
	return unused;
}

static void *second(void *unused)
{
	init("second");
	pin(0);
	for (ns k = 0; !sem_wait(&passed); k++) {
		usleep(k % 3 == 1 ? 60000 : 1000);
		sem_post(&posted);
	}
	return unused;
}

static void asks(void)
{
	thread(first);
	thread(second);
	for (ns r = begin; r < truth->end; r += PERIOD) {
		until(r);
		sem_post(&asked);
		while (sem_wait(&posted))
			;
		work(MS);
		job(r);
	}
}

/* Runs `each(release)` in a process of its own, every third period, from `after` its begin. */
static void process(const char *name, int priority, ns after, void (*each)(ns))
{
	if (fork())
		return;
	prctl(PR_SET_NAME, name);
	pin(0);
	fifo(priority);
	for (ns k = 0, r = begin; r < truth->end; k++, r += PERIOD) {
		until(r + after);
		if (k % 3 == 1)
			each(r);
	}
	_exit(0);
}

static pid_t moved_one;

static void moves(ns r)
{
	cpu_set_t set;

	for (int cpu = 0; cpu < 2; cpu++) {
		CPU_ZERO(&set);
		CPU_SET(cpu, &set);
		sched_setaffinity(moved_one, sizeof(set), &set);
		until(r + 90 * MS);
	}
}

static void hogs(ns r)
{
	while (now() < r + 50 * MS)
		;
}

static void moved(void)
{
	moved_one = getpid();
	process("urgent", 70, 4 * MS, hogs);
	process("mover", 80, 6 * MS, moves);
	for (ns r = begin; r < truth->end; r += PERIOD) {
		until(r);
		work(12 * MS);
		job(r);
	}
}

int main(int count, char **arguments)
{
	static const struct { const char *name; void (*run)(void); } modes[] = {
		{"turns", turns}, {"queued", queued}, {"asks", asks}, {"moved", moved},
	};
	const char *run_ms = getenv("RUN_MS");

	truth = mmap(0, sizeof(*truth), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	begin = now() + 20 * MS;
	truth->end = begin + (run_ms ? atoll(run_ms) : 3000) * MS;
	for (unsigned i = 0; count > 1 && i < sizeof(modes) / sizeof(*modes); i++) {
		if (strcmp(modes[i].name, arguments[1]))
			continue;
		init("ends");
		modes[i].run();
	}
	printf("TRUTH %ld %ld %lld\n", truth->jobs, truth->late, truth->max);
	fflush(stdout);
	_exit(0);
}
