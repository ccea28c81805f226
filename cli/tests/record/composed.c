/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* composed RELEASE INSIDE [late]: a thread whose jobs are released as RELEASE says, each of which does in its middle what INSIDE
 * says. Every fourth job takes 3 ms, with `late` 60 ms, all others 1 ms. The first thread has created the others, and runs
 * each 10 ms. Every job is logged; at the end `TRUTH jobs late max_ns`. Without arguments: prints what there is. */
#include "hidden.h"
#include <mqueue.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

/* What the thread waits on, and when the poster released its jobs. */
static int from, to, own;
static sem_t posted;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static _Atomic unsigned word;
static unsigned taken;
static _Atomic ns releases[1024];
static _Atomic unsigned released;
static ns due;
static timer_t timer;

static void count(uint64_t times) { due += (ns)times * PERIOD; }

/* Each of these returns the release. By time: */
static ns slept(void) { until(due); count(1); return due - PERIOD; }

static ns after(void (*sleeps)(ns))
{
	ns wakes = now() + PERIOD / 2;

	sleeps(PERIOD / 2);
	return wakes;
}

static void by_usleep(ns t) { usleep(t / 1000); }
static void by_select(ns t) { select(0, 0, 0, 0, &(struct timeval){0, t / 1000}); }
static void by_ppoll(ns t) { struct timespec s = at(t); ppoll(0, 0, &s, 0); }
static ns usleeps(void) { return after(by_usleep); }
static ns selects(void) { return after(by_select); }
static ns ppolls(void) { return after(by_ppoll); }

static ns expired(uint64_t times)
{
	ns release = due;

	count(times);
	return release;
}

static ns reads_timer(void)
{
	uint64_t times = 0;

	return read(from, &times, 8) == 8 ? expired(times) : 0;
}

static ns epolls(void)
{
	struct epoll_event one;

	epoll_wait(to, &one, 1, -1);
	return reads_timer();
}

static ns sigwaits(void)
{
	sigset_t set;
	siginfo_t told;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigwaitinfo(&set, &told);
	return expired(1 + told.si_overrun);
}

static ns reads_signal(void)
{
	struct signalfd_siginfo told;

	return read(from, &told, sizeof(told)) == sizeof(told) ? expired(1 + told.ssi_overrun) : 0;
}

/* By the poster: */
static ns next(void) { return releases[taken++ & 1023]; }
static ns reads(void) { char one[8]; return read(from, one, 8) > 0 ? next() : 0; }
static ns polls(void) { struct pollfd p = {from, POLLIN, 0}; poll(&p, 1, -1); return reads(); }
static ns sems(void) { return sem_wait(&posted) ? 0 : next(); }
static ns mqs(void) { char one[8]; return mq_receive(from, one, 8, 0) < 0 ? 0 : next(); }
static ns semops(void) { struct sembuf down = {0, -1, 0}; return semop(from, &down, 1) ? 0 : next(); }

static ns msgs(void)
{
	struct { long type; char one[8]; } m;

	return msgrcv(from, &m, 8, 0, 0) < 0 ? 0 : next();
}

static ns conditions(void)
{
	pthread_mutex_lock(&mutex);
	while (word == taken)
		pthread_cond_wait(&condition, &mutex);
	pthread_mutex_unlock(&mutex);
	return next();
}

static ns futexes(void)
{
	while (word == taken)
		syscall(SYS_futex, &word, FUTEX_WAIT, taken, 0, 0, 0);
	return next();
}

static void writes(void) { uint64_t one = 1; if (write(to, &one, 8) < 0) exit(77); }
static void sem_posts(void) { sem_post(&posted); }
static void mq_sends(void) { mq_send(from, "1234567", 8, 0); }
static void ups(void) { struct sembuf up = {0, 1, 0}; semop(from, &up, 1); }
static void msg_sends(void) { struct { long type; char one[8]; } m = {1, ""}; msgsnd(from, &m, 8, 0); }
static void wakes(void) { word++; syscall(SYS_futex, &word, FUTEX_WAKE, 1, 0, 0, 0); }

static void signals(void)
{
	pthread_mutex_lock(&mutex);
	word++;
	pthread_cond_signal(&condition);
	pthread_mutex_unlock(&mutex);
}

/* Descriptors. */
static void timers(void)
{
	struct epoll_event one = {EPOLLIN, {0}};
	struct itimerspec every = {at(PERIOD), at(due)};

	from = timerfd_create(CLOCK_MONOTONIC, 0);
	to = epoll_create1(0);
	epoll_ctl(to, EPOLL_CTL_ADD, from, &one);
	timerfd_settime(from, TFD_TIMER_ABSTIME, &every, 0);
}

static void signalled(void)
{
	struct sigevent e = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
	struct itimerspec every = {at(PERIOD), at(due)};
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	from = signalfd(-1, &set, 0);
	e._sigev_un._tid = gettid();
	timer_create(CLOCK_MONOTONIC, &e, &timer);
	timer_settime(timer, TIMER_ABSTIME, &every, 0);
}

static void none(void) {}
static void events(void) { from = to = eventfd(0, 0); }
static void pipes(void) { int two[2]; if (pipe(two)) exit(77); from = two[0], to = two[1]; }
static void sockets(void) { int two[2]; socketpair(AF_UNIX, SOCK_DGRAM, 0, two); from = two[0], to = two[1]; }
static void semaphore(void) { sem_init(&posted, 0, 0); }
static void sysv(void) { from = semget(IPC_PRIVATE, 1, 0600); }
static void messages(void) { from = msgget(IPC_PRIVATE, 0600); }

static void queues(void)
{
	struct mq_attr a = {.mq_maxmsg = 8, .mq_msgsize = 8};
	char name[32];

	snprintf(name, sizeof(name), "/composed.%d", getpid());
	from = mq_open(name, O_CREAT | O_RDWR, 0600, &a);
	mq_unlink(name);
}

static const struct {
	const char *name;
	void (*opens)(void);
	ns (*waits)(void);
	void (*posts)(void); /* 0: released by time */
} kinds[] = {
	{"sleep", none, slept, 0}, {"usleep", none, usleeps, 0}, {"select", none, selects, 0}, {"ppoll", none, ppolls, 0},
	{"timerfd", timers, reads_timer, 0}, {"epoll", timers, epolls, 0}, {"sigwait", signalled, sigwaits, 0},
	{"signalfd", signalled, reads_signal, 0}, {"eventfd", events, reads, writes}, {"poll", pipes, polls, writes},
	{"socket", sockets, reads, writes}, {"semaphore", semaphore, sems, sem_posts}, {"mqueue", queues, mqs, mq_sends},
	{"condition", none, conditions, signals}, {"futex", none, futexes, wakes}, {"semop", sysv, semops, ups},
	{"message", messages, msgs, msg_sends},
};

/* In the middle of a job; the last part takes `t`. */
static void rests(ns t) { usleep(1000); work(t); }
static void halves(ns t) { until(now() + MS / 2); work(t); }
static void yields(ns t) { sched_yield(); work(t); }
static void looks(ns t) { struct pollfd p = {own, POLLIN, 0}; poll(&p, 1, 0); work(t); }
static void renames(ns t) { prctl(PR_SET_NAME, "renamed"); work(t); prctl(PR_SET_NAME, "composed"); }
static void *part(void *t) { work(*(ns *)t); return 0; }
static void hands_over(ns t) { pthread_t p; pthread_create(&p, 0, part, &t); pthread_join(p, 0); }

static void forks(ns t)
{
	pid_t child = fork();

	if (!child) {
		work(t);
		_exit(0);
	}
	waitpid(child, 0, 0);
}

static void saves(ns t)
{
	int file = open("/tmp", O_TMPFILE | O_RDWR, 0600);

	if (file >= 0 && write(file, kinds, 64) == 64)
		fsync(file);
	close(file);
	work(t);
}

static void triggers(ns t)
{
	uint64_t one = 1;

	if (write(own, &one, 8) != 8 || read(own, &one, 8) != 8)
		exit(77);
	work(t);
}

static const struct {
	const char *name;
	void (*goes_on)(ns);
} middles[] = {
	{"nothing", work}, {"rest", rests}, {"half", halves}, {"yield", yields}, {"look", looks}, {"rename", renames},
	{"thread", hands_over}, {"fork", forks}, {"file", saves}, {"trigger", triggers},
};

static size_t kind, middle;
static ns longest = 3 * MS;
static _Atomic int open_for_posts;

static void *composed(void *unused)
{
	init("composed");
	own = eventfd(0, 0);
	kinds[kind].opens();
	open_for_posts = 1;
	for (long k = 0; now() < truth->end; k++) {
		ns release = kinds[kind].waits(), took = k % 4 == 3 ? longest : MS;

		if (!release)
			exit(77);
		work(took / 4);
		middles[middle].goes_on(took - took / 4);
		job(release);
	}
	return unused;
}

/* One more than there are jobs: the thread waits for it when the time is over. */
static void *poster(void *unused)
{
	init("poster");
	fifo(70);
	for (ns t = due; t < truth->end + 2 * PERIOD; t += PERIOD) {
		until(t);
		releases[released++ & 1023] = now();
		kinds[kind].posts();
	}
	return unused;
}

int main(int arguments, char **argument)
{
	size_t all = sizeof(kinds) / sizeof(*kinds), insides = sizeof(middles) / sizeof(*middles);
	pthread_t g, c, p = 0;
	sigset_t set;

	if (arguments < 3) {
		for (size_t i = 0; i < all * insides; i++)
			printf("%s %s\n", kinds[i / insides].name, middles[i % insides].name);
		return 0;
	}
	while (kind < all && strcmp(kinds[kind].name, argument[1]))
		kind++;
	while (middle < insides && strcmp(middles[middle].name, argument[2]))
		middle++;
	if (kind == all || middle == insides)
		return 2;
	if (arguments > 3)
		longest = LATE;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, 0);
	truth = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	truth->begin = now();
	truth->end = truth->begin + (getenv("RUN_MS") ? atoll(getenv("RUN_MS")) : 2000) * MS;
	due = truth->begin + 50 * MS;
	pthread_create(&g, 0, good, 0);
	pthread_create(&c, 0, composed, 0);
	for (; now() < truth->end; usleep(10000))
		if (open_for_posts && kinds[kind].posts && !p)
			pthread_create(&p, 0, poster, 0);
	pthread_join(c, 0);
	printf("TRUTH %ld %ld %lld\n", truth->jobs, truth->late, truth->max);
	fflush(stdout);
	semctl(kinds[kind].waits == semops ? from : -1, 0, IPC_RMID);
	msgctl(kinds[kind].waits == msgs ? from : -1, IPC_RMID, 0);
	_exit(0);
}
