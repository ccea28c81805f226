/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* sources MODE: late jobs, each released by another interface of the kernel; as hidden.c, with the same truth. The modes
 * shortlived and tokens are in no test list: lathunt does not see where their jobs start. */
#include "sources_more.h"

/* In time: tokens of an eventfd that come together, and a poller that sleeps and looks. */
static void *tokens(void *unused)
{
	uint64_t one;

	object = eventfd(0, EFD_SEMAPHORE);
	init("tokens");
	posting(event_post, 1);
	while (now() < truth->end - PERIOD && read(object, &one, 8) == 8) {
		ns r = now();

		work(28 * MS);
		job(r);
	}
	return unused;
}

#define MODE(name) {#name, name}
static const struct {
	const char *name;
	void *(*run)(void *);
} modes[] = {
	MODE(sysvhalf), MODE(semlate), MODE(efdhalf), MODE(pollmany), MODE(nested), MODE(oneshot), MODE(linkhalf),
	MODE(flocklate), MODE(fanhalf), MODE(inolate), MODE(robustlate), MODE(sqpoll), MODE(signalmix), MODE(threadid),
	MODE(pidfdlate), MODE(faultlate), MODE(supervised), MODE(onboottime), MODE(onrealtime), MODE(ontai),
	MODE(throttled), MODE(lathunt), MODE(twins), MODE(oddname), MODE(shortlived), MODE(stealing), MODE(tokens),
};

int main(int count, char **arguments)
{
	pthread_t g, t = 0;

	truth = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	truth->begin = now() + 10 * MS;
	truth->end = truth->begin + (getenv("RUN_MS") ? atoll(getenv("RUN_MS")) : 2000) * MS;
	pthread_create(&g, 0, good, 0);
	for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++)
		if (count > 1 && !strcmp(arguments[1], modes[i].name))
			pthread_create(&t, 0, modes[i].run, 0);
	if (t)
		pthread_join(t, 0);
	pthread_join(g, 0);
	printf("TRUTH %ld %ld %lld\n", truth->jobs, truth->late, truth->max);
	fflush(stdout);
	_exit(0);
}
