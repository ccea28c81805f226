/* The plain loop that lathunt clock is compared with: the smallest difference of two reads, in ns, for
 * CLOCK_MONOTONIC; and for the processor's counter in ticks (x86-64). */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

int main(int argc, char **argv)
{
	long n = argc > 1 ? atol(argv[1]) : 1000000;
	uint64_t clock = UINT64_MAX, counter = UINT64_MAX, sum = 0;

	for (long i = 0; i < n; i++) {
		uint64_t a = now(), b = now();

		sum += b - a;
		if (b - a < clock)
			clock = b - a;
	}
#if defined(__x86_64__)
	for (long i = 0; i < n; i++) {
		uint64_t a = __rdtsc(), b = __rdtsc();

		if (b - a < counter)
			counter = b - a;
	}
#endif
	printf("%llu %llu %.3f\n", (unsigned long long)clock, (unsigned long long)counter, (double)sum / n);
	return 0;
}
