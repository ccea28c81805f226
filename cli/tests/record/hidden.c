/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* hidden MODE: programs with one kind of late work each. A thread `good` keeps its deadline all the time, so that there
 * are samples enough; beside it, MODE has jobs that take LATE_MS, driven as its name says. Every job is logged by
 * CLOCK_MONOTONIC; at the end `TRUTH jobs late max_ns` tells the truth about all but `good`. */
#include "hidden.h"
#include "hidden_calls.h"
#include "hidden_chains.h"
#include "hidden_ends.h"
#include "hidden_halves.h"
#include "hidden_stops.h"
#include "hidden_held.h"
#include "hidden_turns.h"
#include "hidden_loops.h"

/* A queue with a condition and two workers. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static struct { ns release, work; } queue[64];
static unsigned put, taken;

static void *worker(void *unused)
{
	init("worker");
	for (;;) {
		pthread_mutex_lock(&lock);
		while (put == taken)
			pthread_cond_wait(&more, &lock);
		unsigned k = taken++ % 64;
		ns r = queue[k].release, w = queue[k].work;
		pthread_mutex_unlock(&lock);
		work(w);
		job(r);
	}
	return unused;
}

static void *pool(void *unused)
{
	pthread_t t;

	pthread_create(&t, 0, worker, 0);
	pthread_create(&t, 0, worker, 0);
	init("boss");
	fifo(61);
	PERIODIC(pthread_mutex_lock(&lock); queue[put % 64].release = r; queue[put++ % 64].work = w;
		 pthread_mutex_unlock(&lock); pthread_cond_signal(&more))
	return unused;
}

/* Three timers on one epoll; the handler of one of them is late. */
static void *epollco(void *unused)
{
	int e = epoll_create1(0), fd[3];
	ns begin = now() + MS, periods[3] = {7 * MS, 13 * MS, PERIOD}, next[3];

	init("epollco");
	for (int i = 0; i < 3; i++) {
		struct itimerspec t = {at(periods[i]), at(begin + periods[i])};
		struct epoll_event v = {EPOLLIN, {.fd = i}};

		next[i] = begin + periods[i];
		fd[i] = timerfd_create(CLOCK_MONOTONIC, 0);
		timerfd_settime(fd[i], TFD_TIMER_ABSTIME, &t, 0);
		epoll_ctl(e, EPOLL_CTL_ADD, fd[i], &v);
	}
	while (now() < truth->end) {
		struct epoll_event v;
		unsigned long long times;

		if (epoll_wait(e, &v, 1, -1) != 1 || read(fd[v.data.fd], &times, 8) != 8)
			continue;
		work(v.data.fd == 2 ? LATE : MS / 10);
		if (v.data.fd == 2)
			job(next[2]);
		next[v.data.fd] += (ns)times * periods[v.data.fd];
	}
	return unused;
}

/* A master and a helper meet at barriers; the helper is the late one. */
static pthread_barrier_t fork_barrier, join_barrier;
static volatile ns share;

static void *helper(void *unused)
{
	init("helper");
	for (;;) {
		pthread_barrier_wait(&fork_barrier);
		work(share);
		pthread_barrier_wait(&join_barrier);
	}
	return unused;
}

static void *forkjoin(void *unused)
{
	pthread_t t;

	pthread_barrier_init(&fork_barrier, 0, 2);
	pthread_barrier_init(&join_barrier, 0, 2);
	pthread_create(&t, 0, helper, 0);
	init("master");
	PERIODIC(share = w; pthread_barrier_wait(&fork_barrier); work(MS / 10); pthread_barrier_wait(&join_barrier);
		 job(r))
	return unused;
}

/* Priorities and CPUs change inside the job. */
static void *priochange(void *unused)
{
	init("priochange");
	PERIODIC(fifo(10); work(w / 2); fifo(70); work(w / 2); fifo(60); job(r))
	return unused;
}

static void *policychange(void *unused)
{
	init("policychange");
	PERIODIC(work(w / 2); fifo(0); work(w / 2); fifo(60); job(r))
	return unused;
}

static void *cpuchange(void *unused)
{
	init("cpuchange");
	PERIODIC(work(w / 2); pin(0); work(w / 4); pin(1); work(w / 4); job(r))
	return unused;
}

static void *renamed(void *unused)
{
	init("renamed");
	PERIODIC(prctl(PR_SET_NAME, "a"); work(w / 2); prctl(PR_SET_NAME, "b"); work(w / 2); job(r))
	return unused;
}

/* A job with a sleep in its midst, by the same call as its release. */
static void *sleepinner(void *unused)
{
	init("sleepinner");
	PERIODIC((void)w; work(25 * MS); until(r + 35 * MS); work(25 * MS); job(r))
	return unused;
}

static void *relinner(void *unused)
{
	struct timespec some = at(10 * MS);

	init("relinner");
	PERIODIC((void)w; work(25 * MS); nanosleep(&some, 0); work(25 * MS); job(r))
	return unused;
}

/* A mutex that another thread holds. */
static void *holder(void *unused)
{
	init("holder");
	fifo(40);
	pin(0);
	for (ns r = now() + MS - MS / 2; r < truth->end; r += PERIOD) {
		until(r);
		pthread_mutex_lock(&lock);
		until(r + LATE);
		pthread_mutex_unlock(&lock);
	}
	return unused;
}

static void *mutexwait(void *unused)
{
	pthread_t t;

	init("mutexwait");
	pthread_create(&t, 0, holder, 0);
	PERIODIC((void)w; work(MS); pthread_mutex_lock(&lock); pthread_mutex_unlock(&lock); job(r))
	return unused;
}

/* One job of many waits in its midst, by the same call as its release. */
static void *offperiod(void *unused)
{
	init("offperiod");
	PERIODIC((void)w; work(MS); if (k == 5) until(r + LATE); work(MS / 2); job(r))
	return unused;
}

/* In time: it waits for work, and rests a little after each job. */
static sem_t work_there;
static volatile ns posted;

static void *rests(void *unused)
{
	struct timespec rest = at(MS / 5);

	init("rests");
	while (!sem_wait(&work_there)) {
		work(2 * MS);
		job(posted);
		nanosleep(&rest, 0);
	}
	return unused;
}

static void *restful(void *unused)
{
	pthread_t t;

	sem_init(&work_there, 0, 0);
	pthread_create(&t, 0, rests, 0);
	init("poster");
	fifo(61);
	PERIODIC((void)w; posted = now(); sem_post(&work_there))
	return unused;
}

/* Never blocks: it waits for its time by looking at the clock, or by yielding. */
static void *spinwait(void *unused)
{
	init("spinwait");
	fifo(0);
	for (ns r = now() + MS; r < truth->end; r += PERIOD) {
		while (now() < r)
			;
		work(LATE);
		job(r);
	}
	return unused;
}

static void *yieldwait(void *unused)
{
	init("yieldwait");
	fifo(0);
	for (ns r = now() + MS; r < truth->end; r += PERIOD) {
		while (now() < r)
			sched_yield();
		work(LATE);
		job(r);
	}
	return unused;
}

/* Work in the handler of a signal. */
static void handler(int signal)
{
	ns r = now();

	(void)signal;
	work(LATE);
	job(r);
}

static void *insignal(void *unused)
{
	struct sigaction a = {.sa_handler = handler};
	struct sigevent e = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR2};
	struct itimerspec every = {at(3 * PERIOD), at(3 * PERIOD)};
	timer_t timer;
	ns n = now();

	init("insignal");
	sigaction(SIGUSR2, &a, 0);
	e._sigev_un._tid = gettid();
	timer_create(CLOCK_MONOTONIC, &e, &timer);
	timer_settime(timer, 0, &every, 0);
	while (now() < truth->end) {
		n += 5 * MS;
		while (n < now())
			n += 5 * MS;
		until(n);
	}
	return unused;
}

/* New memory, touched in the job. */
static void *faults(void *unused)
{
	init("faults");
	PERIODIC(size_t size = 8 << 20; char *m = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		 ns end = r + w; while (now() < end) { madvise(m, size, MADV_DONTNEED);
		 for (size_t i = 0; i < size && now() < end; i += 4096) m[i] = 1; } munmap(m, size); job(r))
	return unused;
}

static const struct {
	const char *name;
	void *(*run)(void *);
} modes[] = {
	{"plain", plain}, {"pool", pool}, {"epollco", epollco}, {"forkjoin", forkjoin}, {"futexwaitv", futexwaitv},
	{"procjob", procjob}, {"vforkjob", vforkjob}, {"threadjob", threadjob}, {"priochange", priochange},
	{"policychange", policychange}, {"cpuchange", cpuchange}, {"renamed", renamed}, {"destructor", destructor},
	{"sleepinner", sleepinner}, {"halfperiod", halfperiod}, {"steps", steps}, {"offperiod", offperiod},
	{"restful", restful}, {"relinner", relinner}, {"mutexwait", mutexwait}, {"chain", chain}, {"spinwait", spinwait},
	{"yieldwait", yieldwait}, {"insignal", insignal}, {"stopped", stopped}, {"traced", traced}, {"namespace", namespace},
	{"faults", faults}, {"pollinner", pollinner}, {"sigevthread", sigevthread}, {"daemonised", daemonised},
	{"epollhalf", epollhalf}, {"twoposters", twoposters}, {"eventloop", eventloop}, {"relhalf", relhalf},
	{"condhalf", condhalf}, {"signalhalf", signalhalf}, {"mixhalf", mixhalf}, {"coroutines", coroutines},
	{"messages", messages}, {"ownfutex", ownfutex}, {"stopwait", stopwait}, {"stoptimer", stoptimer}, {"relay", relay},
	{"forkrelay", forkrelay}, {"reserved", reserved}, {"longcall", longcall}, {"killed", killed}, {"exechalf", exechalf},
	{"sigfdhalf", sigfdhalf}, {"aiohalf", aiohalf}, {"uringhalf", uringhalf}, {"tracewait", tracewait},
	{"sibling", sibling}, {"restarted", restarted}, {"rearmed", rearmed}, {"migrating", migrating}, {"nopause", nopause},
	{"quietsource", quietsource}, {"taketurns", taketurns}, {"goodturns", goodturns}, {"twotimers", twotimers},
	{"itimer", itimer}, {"loopmix", loopmix}, {"udphalf", udphalf}, {"shortgap", shortgap}, {"pollgap", pollgap},
	{"alternate", alternate}, {"quietwait", quietwait}, {"clockspin", clockspin}, {"flagspin", flagspin},
	{"mutexspin", mutexspin}, {"frozenwait", frozenwait}, {"stopsem", stopsem}, {"inturn", inturn}, {"prefetch", prefetch},
	{"frozensem", frozensem}, {"forkheld", forkheld},
};

static void ignored(int signal) { (void)signal; }

int main(int count, char **arguments)
{
	const char *mode = count > 1 ? arguments[1] : "", *number = getenv("HIDDEN_EXEC");
	pthread_t g, t = 0;
	int shared = memfd_create("truth", 0);
	sigset_t alarms;

	if (number) { /* the next program of execchain: the descriptor is inherited */
		shared = atoi(getenv("HIDDEN_FD"));
	} else if (ftruncate(shared, 4096)) {
		return 77;
	}
	truth = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, shared, 0);
	if (!number) {
		truth->begin = now() + 10 * MS;
		truth->end = truth->begin + (getenv("RUN_MS") ? atoll(getenv("RUN_MS")) : 2000) * MS;
	}
	signal(SIGUSR1, ignored);
	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	sigprocmask(SIG_BLOCK, &alarms, 0); /* in all threads: one of them takes it */
	if (!strcmp(mode, "execchain")) {
		if (number) {
			work(LATE / 2);
			job(truth->begin + (atoi(number) - 1) * PERIOD);
		} else {
			char fd[16];

			snprintf(fd, sizeof(fd), "%d", shared);
			setenv("HIDDEN_FD", fd, 1);
			if (!fork()) {
				good(0);
				_exit(0);
			}
		}
		execchain(number ? atoi(number) : 0);
	} else {
		pthread_create(&g, 0, good, 0);
		for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++)
			if (!strcmp(mode, modes[i].name))
				pthread_create(&t, 0, modes[i].run, 0);
		if (!strcmp(mode, "exithandler")) {
			init("exithandler");
			for (last_release = truth->begin; last_release < truth->end; last_release += PERIOD)
				until(last_release);
			until(last_release);
			at_exit();
		}
		if (t)
			pthread_join(t, 0);
		pthread_join(g, 0);
	}
	printf("TRUTH %ld %ld %lld\n", truth->jobs, truth->late, truth->max);
	fflush(stdout);
	_exit(0);
}
