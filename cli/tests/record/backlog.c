/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* backlog MODE [late]: a thread whose second job is released while the first one runs, so that its wait for it returns at
 * once. Every fifth job takes 32 ms (with `late` 45 ms), the one after it 10 ms, all others 1 ms. Each is released 20 ms
 * after the one before. Every job is logged; at the end `TRUTH jobs late max_ns`. */
#include "hidden.h"

#define STEP (20 * MS)
static ns longest = 32 * MS;

static ns takes(long k) { return k % 5 == 1 ? longest : k % 5 == 2 ? 10 * MS : MS; }

static int ticks(ns first)
{
	int t = timerfd_create(CLOCK_MONOTONIC, 0);
	struct itimerspec every = {at(STEP), at(first)};

	timerfd_settime(t, TFD_TIMER_ABSTIME, &every, 0);
	return t;
}

/* With a wait in front, or none. */
static void *by_timerfd(int epoll, int polls, const char *name)
{
	ns first = now() + STEP;
	int t = ticks(first), e = epoll ? epoll_create1(0) : -1;
	struct epoll_event v = {EPOLLIN, {.fd = t}};
	unsigned long long times;

	init(name);
	if (epoll)
		epoll_ctl(e, EPOLL_CTL_ADD, t, &v);
	for (long k = 0; now() < truth->end; k++) {
		struct pollfd p = {t, POLLIN, 0};

		if (epoll)
			epoll_wait(e, &v, 1, -1);
		if (polls)
			poll(&p, 1, -1);
		if (read(t, &times, 8) != 8)
			exit(77);
		work(takes(k));
		job(first + k * STEP);
		k += (long)times - 1;
	}
	return 0;
}

static void *timerfd(void *unused) { return (void)unused, by_timerfd(0, 0, "timerfd"); }
static void *epolled(void *unused) { return (void)unused, by_timerfd(1, 0, "epolled"); }
static void *polled(void *unused) { return (void)unused, by_timerfd(0, 1, "polled"); }

static void *sigwaits(void *unused)
{
	struct sigevent e = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR2};
	ns first = now() + STEP;
	struct itimerspec every = {at(STEP), at(first)};
	sigset_t set;
	timer_t timer;

	init("sigwaits");
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &set, 0);
	e._sigev_un._tid = gettid();
	timer_create(CLOCK_MONOTONIC, &e, &timer);
	timer_settime(timer, TIMER_ABSTIME, &every, 0);
	for (long k = 0; now() < truth->end; k++) {
		siginfo_t info;

		sigwaitinfo(&set, &info);
		work(takes(k));
		job(first + k * STEP);
		k += info.si_overrun;
	}
	return unused;
}

static void *slept(void *unused)
{
	ns first = now() + STEP;

	init("slept");
	for (long k = 0; now() < truth->end; k++) {
		until(first + k * STEP);
		work(takes(k));
		job(first + k * STEP);
	}
	return unused;
}

/* What another thread posts. */
static struct {
	ns release;
	long k;
} queue[64];
static _Atomic unsigned posts;
static sem_t there;
static int ends[2];

static void *poster(void *by_pipe)
{
	ns first = now() + STEP;

	init("poster");
	pin(0);
	fifo(70);
	for (long k = 0; now() < truth->end; k++) {
		until(first + k * STEP);
		queue[posts % 64].release = now();
		queue[posts++ % 64].k = k;
		if (by_pipe ? write(ends[1], "x", 1) != 1 : sem_post(&there))
			exit(77);
	}
	return 0;
}

static void *taken(void *by_pipe, const char *name)
{
	pthread_t t;
	char c;

	init(name);
	pthread_create(&t, 0, poster, by_pipe);
	for (unsigned n = 0; now() < truth->end - 3 * STEP; n++) {
		if (by_pipe ? read(ends[0], &c, 1) != 1 : sem_wait(&there))
			exit(77);
		work(takes(queue[n % 64].k));
		job(queue[n % 64].release);
	}
	return 0;
}

static void *semaphore(void *unused) { return (void)unused, sem_init(&there, 0, 0), taken(0, "semaphore"); }
static void *piped(void *unused) { return (void)unused, pipe(ends) ? exit(77) : (void)0, taken(ends, "piped"); }

int main(int count, char **arguments)
{
	static const struct {
		const char *name;
		void *(*run)(void *);
	} modes[] = {{"timerfd", timerfd}, {"epolled", epolled}, {"polled", polled}, {"sigwaits", sigwaits},
		     {"slept", slept}, {"semaphore", semaphore}, {"piped", piped}};
	pthread_t g, t = 0;

	truth = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	truth->begin = now();
	truth->end = truth->begin + (getenv("RUN_MS") ? atoll(getenv("RUN_MS")) : 1500) * MS;
	if (count > 2)
		longest = 45 * MS;
	pthread_create(&g, 0, good, 0);
	for (size_t i = 0; count > 1 && i < sizeof(modes) / sizeof(*modes); i++)
		if (!strcmp(arguments[1], modes[i].name))
			pthread_create(&t, 0, modes[i].run, 0);
	if (!t)
		return 77;
	pthread_join(t, 0);
	pthread_join(g, 0);
	printf("TRUTH %ld %ld %lld\n", truth->jobs, truth->late, truth->max);
	fflush(stdout);
	_exit(0);
}
