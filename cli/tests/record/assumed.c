/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* assumed MODE: threads whose main wait may not be the release of their jobs; as hidden.c, with the same truth. */
#include "hidden_main.h"

/* In time: it sleeps until 50 ms before its release, and spins until that. */
static void *absspin(void *unused)
{
	init("absspin");
	for (ns r = truth->begin + PERIOD; r < truth->end; r += PERIOD) {
		until(r - PERIOD / 2);
		while (now() < r)
			;
		work(MS);
		job(r);
	}
	return unused;
}

/* In time: another thread wakes it 50 ms before its release. */
static sem_t wake;

static void *wakes(void *unused)
{
	init("wakes");
	pin(0);
	for (ns r = truth->begin + PERIOD; r < truth->end + PERIOD; r += PERIOD) {
		until(r - PERIOD / 2);
		sem_post(&wake);
	}
	return unused;
}

static void *semspin(void *unused)
{
	pthread_t other;

	init("semspin");
	pthread_create(&other, 0, wakes, 0);
	for (ns r = truth->begin + PERIOD; r < truth->end; r += PERIOD) {
		sem_wait(&wake);
		while (now() < r)
			;
		work(MS);
		job(r);
	}
	return unused;
}

/* In time: the timeout of a poll, then a spin. */
static void *pollspin(void *unused)
{
	init("pollspin");
	for (ns r = truth->begin + PERIOD; r < truth->end; r += PERIOD) {
		poll(0, 0, 40);
		while (now() < r)
			;
		work(MS);
		job(r);
	}
	return unused;
}

/* In time: after each job a sleep until a time taken from the clock. */
static sem_t work_there;
static volatile ns posted;

static void *posts(void *unused)
{
	init("posts");
	pin(0);
	for (ns r = truth->begin + PERIOD; r < truth->end + PERIOD; r += PERIOD) {
		until(r);
		posted = now();
		sem_post(&work_there);
	}
	return unused;
}

static void *fromnow(void *unused)
{
	pthread_t other;

	init("fromnow");
	pthread_create(&other, 0, posts, 0);
	while (now() < truth->end) {
		sem_wait(&work_there);
		ns r = posted;

		work(20 * MS);
		job(r);
		until(now() + MS);
	}
	return unused;
}

/* In time: within each job it asks another thread three times. */
static sem_t question, answer;

static void *answers(void *unused)
{
	init("answers");
	pin(0);
	for (;;) {
		sem_wait(&question);
		until(now() + 2 * MS);
		sem_post(&answer);
	}
	return unused;
}

static void *asks(void *unused)
{
	pthread_t other;

	init("asks");
	pthread_create(&other, 0, answers, 0);
	pthread_create(&other, 0, posts, 0);
	while (now() < truth->end) {
		sem_wait(&work_there);
		ns r = posted;

		for (int i = 0; i < 3; i++) {
			sem_post(&question);
			sem_wait(&answer);
			work(3 * MS);
		}
		job(r);
	}
	return unused;
}

/* Late each time: work after a sleep until its release. */
static void *always(void *unused)
{
	init("always");
	PERIODIC((void)w; work(55 * MS); job(r))
	return unused;
}

/* Late now and then: its first sleep until an absolute time comes after many waits of another kind. */
static void *setup(void *unused)
{
	struct timespec shortly = at(100000);

	init("setup");
	for (int i = 0; i < 100; i++)
		nanosleep(&shortly, 0);
	for (ns k = 0, r = now() + MS; r < truth->end; k++, r += PERIOD) {
		until(r);
		for (int i = 0; i < 8; i++) {
			work(k % 3 == 1 ? 7 * MS : 100000);
			nanosleep(&shortly, 0);
		}
		job(r);
	}
	return unused;
}

static const struct mode modes[] = {
	MODE(absspin), MODE(semspin), MODE(pollspin), MODE(fromnow), MODE(asks), MODE(always), MODE(setup),
};

int main(int count, char **arguments)
{
	sem_init(&wake, 0, 0);
	sem_init(&work_there, 0, 0);
	sem_init(&question, 0, 0);
	sem_init(&answer, 0, 0);
	return run_mode(modes, sizeof(modes) / sizeof(*modes), count > 1 ? arguments[1] : "");
}
