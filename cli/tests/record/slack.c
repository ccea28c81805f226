/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* slack: an ordinary thread with 8 ms of timer slack sleeps until times 20 ms apart, and logs how late it wakes up. Prints
 * `TRUTH jobs late max_ns`, and `LEAST` the smallest lateness: the kernel may serve its timer early, with another one. */
#include "hidden.h"

int main(void)
{
	ns least = 1LL << 62, next = now() + 20 * MS;

	truth = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	prctl(PR_SET_NAME, "slack");
	prctl(PR_SET_TIMERSLACK, 8 * MS);
	for (int k = 0; k < 60; k++, next += 20 * MS) {
		until(next);
		ns late = now() - next;

		if (late < least)
			least = late;
		job(next);
	}
	printf("TRUTH %ld %ld %lld\nLEAST %lld\n", truth->jobs, truth->late, truth->max, least);
	return fflush(stdout);
}
