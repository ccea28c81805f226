/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A thread that calls the kernel as 32-bit programs do: it sleeps 2 ms until absolute times, in each tenth turn 100 us more
 * from then on. By `int $0x80`, so that it needs no 32-bit libraries. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

static long call(long number, long a, long b, long c, long d)
{
	long result;

	__asm__ volatile("int $0x80"
			 : "=a"(result)
			 : "a"(number), "b"(a), "c"(b), "d"(c), "S"(d)
			 : "memory", "r8", "r9", "r10", "r11");
	return (int)result;
}

int main(void)
{
	struct rlimit limit = { .rlim_cur = 200000, .rlim_max = 200000 }; /* a runaway ends after 0.2 s */
	struct sched_param param = { .sched_priority = 20 };
	int32_t *until = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	struct timespec now;
	long long next;

	setrlimit(RLIMIT_RTTIME, &limit);
	sched_setscheduler(0, SCHED_FIFO, &param);
	clock_gettime(CLOCK_MONOTONIC, &now);
	next = now.tv_sec * 1000000000LL + now.tv_nsec;
	for (int turn = 0; turn < 300; turn++) {
		next += 2000000;
		until[0] = next / 1000000000;
		until[1] = next % 1000000000;
		if (call(267, CLOCK_MONOTONIC, TIMER_ABSTIME, (long)until, 0)) /* clock_nanosleep */
			return 1;
		until[0] = 0;
		until[1] = 100000;
		if (turn % 10 == 9 && call(162, (long)until, 0, 0, 0)) /* nanosleep */
			return 1;
	}
	return 0;
}
