/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* sources MODE: late jobs, each released by another interface of the kernel; as hidden.c, with the same truth. The modes
 * shortlived and tokens are in no test list: lathunt does not see where their jobs start. */
#include "hidden_main.h"
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

static const struct mode modes[] = {
	MODE(sysvhalf), MODE(semlate), MODE(efdhalf), MODE(pollmany), MODE(nested), MODE(oneshot), MODE(linkhalf),
	MODE(flocklate), MODE(fanhalf), MODE(inolate), MODE(robustlate), MODE(sqpoll), MODE(signalmix), MODE(threadid),
	MODE(pidfdlate), MODE(faultlate), MODE(supervised), MODE(onboottime), MODE(onrealtime), MODE(ontai),
	MODE(throttled), MODE(lathunt), MODE(twins), MODE(oddname), MODE(shortlived), MODE(stealing), MODE(tokens),
};

int main(int count, char **arguments)
{
	return run_mode(modes, sizeof(modes) / sizeof(*modes), count > 1 ? arguments[1] : "");
}
