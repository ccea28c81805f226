/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once
/* Late jobs behind other interfaces: io_uring with a thread of the kernel, faults and calls that another thread serves,
 * children, clocks, and names. */
#include "sources.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/syscall.h>

/* io_uring with a polling thread of the kernel: a timeout releases the job, a second one is in its midst. */
static void *sqpoll(void *unused)
{
	struct io_uring_params p = {.flags = IORING_SETUP_SQPOLL, .sq_thread_idle = 2000};
	int ring = (int)syscall(SYS_io_uring_setup, 8, &p);
	char *map = mmap(0, p.sq_off.array + 4 * p.sq_entries + 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
	char *done = mmap(0, p.cq_off.cqes + 16 * p.cq_entries, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_CQ_RING);
	struct io_uring_sqe *sqes = mmap(0, p.sq_entries * sizeof(*sqes), PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);

	if (ring < 0 || map == MAP_FAILED)
		exit(77);
	init("sqpoll");
	for (ns k = 0, r = now() + 20 * MS; r < truth->end; k++) {
		unsigned *tail = (unsigned *)(map + p.sq_off.tail), *flags = (unsigned *)(map + p.sq_off.flags);
		unsigned *head = (unsigned *)(done + p.cq_off.head);
		struct timespec t = at(k % 2 ? r + 35 * MS : r);
		struct io_uring_sqe *sqe = &sqes[*tail & (p.sq_entries - 1)];

		memset(sqe, 0, sizeof(*sqe));
		sqe->opcode = IORING_OP_TIMEOUT;
		sqe->addr = (uintptr_t)&t;
		sqe->len = 1;
		sqe->timeout_flags = IORING_TIMEOUT_ABS;
		((unsigned *)(map + p.sq_off.array))[*tail & (p.sq_entries - 1)] = *tail & (p.sq_entries - 1);
		__atomic_store_n(tail, *tail + 1, __ATOMIC_SEQ_CST);
		syscall(SYS_io_uring_enter, ring, 0, 1,
			IORING_ENTER_GETEVENTS | (*(volatile unsigned *)flags & IORING_SQ_NEED_WAKEUP ? IORING_ENTER_SQ_WAKEUP : 0), 0, 0);
		__atomic_store_n(head, *head + 1, __ATOMIC_SEQ_CST);
		work(28 * MS);
		if (k % 2) {
			job(r);
			r += PERIOD;
		}
	}
	return unused;
}

/* signalfd and timerfd in one poll: the signal of a timer releases, the timerfd is in the midst of the job. */
static void *signalmix(void *unused)
{
	sigset_t set;
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN};
	struct itimerspec every = {at(PERIOD), at(truth->begin + 20 * MS)};
	struct signalfd_siginfo info;
	struct pollfd all[2];
	uint64_t times;
	timer_t timer;
	ns r = truth->begin + 20 * MS;

	init("signalmix");
	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	pthread_sigmask(SIG_BLOCK, &set, 0);
	event._sigev_un._tid = gettid();
	timer_create(CLOCK_MONOTONIC, &event, &timer);
	timer_settime(timer, TIMER_ABSTIME, &every, 0);
	all[0] = (struct pollfd){signalfd(-1, &set, 0), POLLIN, 0};
	all[1] = (struct pollfd){timerfd_create(CLOCK_MONOTONIC, 0), POLLIN, 0};
	while (now() < truth->end && poll(all, 2, -1) > 0) {
		if (all[0].revents && read(all[0].fd, &info, sizeof(info)) > 0) {
			struct itimerspec once = {{0, 0}, at(r + 35 * MS)};

			work(28 * MS);
			timerfd_settime(all[1].fd, TFD_TIMER_ABSTIME, &once, 0);
		} else if (all[1].revents && read(all[1].fd, &times, 8) == 8) {
			work(28 * MS);
			job(r);
			r += PERIOD;
		}
	}
	return unused;
}

/* The signal of a timer for this thread. */
static void *threadid(void *unused)
{
	sigset_t set;
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN};
	struct itimerspec every = {at(PERIOD), at(truth->begin + 20 * MS)};
	struct timespec second = {1, 0};
	timer_t timer;

	init("threadid");
	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	pthread_sigmask(SIG_BLOCK, &set, 0);
	event._sigev_un._tid = gettid();
	timer_create(CLOCK_MONOTONIC, &event, &timer);
	timer_settime(timer, TIMER_ABSTIME, &every, 0);
	for (ns k = 0, r = truth->begin + 20 * MS; r < truth->end; k++, r += PERIOD) {
		if (sigtimedwait(&set, 0, &second) < 0)
			break;
		work(k % 3 == 1 ? LATE : MS);
		job(r);
	}
	return unused;
}

/* A child that ends is the release, seen by its pidfd. */
static void *pidfdlate(void *unused)
{
	init("pidfdlate");
	for (ns k = 0, r = now() + 20 * MS; r < truth->end; k++, r += PERIOD) {
		pid_t child = fork();

		if (!child) {
			until(r);
			_exit(0);
		}
		struct pollfd end = {(int)syscall(SYS_pidfd_open, child, 0), POLLIN, 0};
		poll(&end, 1, -1);
		work(k % 3 == 1 ? LATE : MS);
		job(r);
		close(end.fd);
		waitpid(child, 0, 0);
	}
	return unused;
}

/* A page that another thread supplies, for which the job waits. */
static char *page;

static void *supplies(void *fd)
{
	struct uffd_msg message;
	static char zero[4096] __attribute__((aligned(4096)));

	init("supplies");
	pin(0);
	while (read(*(int *)fd, &message, sizeof(message)) == sizeof(message)) {
		struct uffdio_copy copy = {(uintptr_t)page, (uintptr_t)zero, 4096, 0, 0};

		work(35 * MS);
		ioctl(*(int *)fd, UFFDIO_COPY, &copy);
	}
	return 0;
}

static void *faultlate(void *unused)
{
	static int fd;
	struct uffdio_api api = {.api = UFFD_API};
	pthread_t other;

	page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_register range = {{(uintptr_t)page, 4096}, UFFDIO_REGISTER_MODE_MISSING, 0};
	fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &range))
		exit(77);
	init("faultlate");
	pthread_create(&other, 0, supplies, &fd);
	PERIODIC(if (k % 3 == 1) { madvise(page, 4096, MADV_DONTNEED); *(volatile char *)page = 1; work(25 * MS); } (void)w; job(r))
	return unused;
}

/* A system call that a supervisor answers. */
static void *supervises(void *fd)
{
	init("supervises");
	pin(0);
	for (;;) {
		struct seccomp_notif call = {0};
		struct seccomp_notif_resp answer = {0};

		if (ioctl(*(int *)fd, SECCOMP_IOCTL_NOTIF_RECV, &call))
			continue;
		work(LATE);
		answer.id = call.id;
		ioctl(*(int *)fd, SECCOMP_IOCTL_NOTIF_SEND, &answer);
	}
	return 0;
}

static void *supervised(void *unused)
{
	static int fd;
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {4, code};
	pthread_t other;

	init("supervised");
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	fd = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
	if (fd < 0)
		exit(77);
	pthread_create(&other, 0, supervises, &fd);
	PERIODIC(if (k % 3 == 1) syscall(SYS_getppid); (void)w; work(MS); job(r))
	return unused;
}

/* Sleeps until times of other clocks. */
static ns of_clock(int clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void on_clock(int clock)
{
	ns offset = of_clock(clock) - now();

	for (ns k = 0, r = now() + MS; r < truth->end; k++, r += PERIOD) {
		struct timespec t = at(r + offset);

		clock_nanosleep(clock, TIMER_ABSTIME, &t, 0);
		work(k % 3 == 1 ? LATE : MS);
		job(r);
	}
}

static void *onboottime(void *unused)
{
	init("onboottime");
	on_clock(CLOCK_BOOTTIME);
	return unused;
}

static void *onrealtime(void *unused)
{
	init("onrealtime");
	on_clock(CLOCK_REALTIME);
	return unused;
}

static void *ontai(void *unused)
{
	init("ontai");
	on_clock(CLOCK_TAI);
	return unused;
}

/* SCHED_DEADLINE takes the CPU away in the midst of a job. */
static void *throttled(void *unused)
{
	struct { uint32_t size, policy; uint64_t flags; int32_t nice; uint32_t priority; uint64_t runtime, deadline, period; } of =
		{48, 6, 0, 0, 0, 20 * MS, 50 * MS, 50 * MS};

	prctl(PR_SET_NAME, "throttled");
	if (syscall(SYS_sched_setattr, 0, &of, 0))
		exit(77);
	PERIODIC((void)w; work(k % 3 == 1 ? 30 * MS : MS); job(r))
	return unused;
}

/* Names: that of the recorder, that of another thread, and one that is no word. */
static void *lathunt(void *unused)
{
	init("lathunt");
	PERIODIC(work(w); job(r))
	return unused;
}

static void *twin(void *late)
{
	init("twin");
	PERIODIC(work(late ? w : MS); if (late) job(r))
	return 0;
}

static void *twins(void *unused)
{
	pthread_t all[3];

	for (long i = 0; i < 3; i++)
		pthread_create(&all[i], 0, twin, (void *)(i == 1 ? 1L : 0L));
	for (long i = 0; i < 3; i++)
		pthread_join(all[i], 0);
	return unused;
}

static void *oddname(void *unused)
{
	init("\x1b[2J\n\"PASS'\r");
	PERIODIC(work(w); job(r))
	return unused;
}

/* A job in a process of its own each time, many others between them. */
static void *shortlived(void *unused)
{
	init("shortlived");
	PERIODIC(for (int i = 0; i < 40; i++) { pid_t child = fork(); if (!child) _exit(0); waitpid(child, 0, 0); }
		 pid_t late = fork(); if (!late) { work(w); job(r); _exit(0); } waitpid(late, 0, 0))
	return unused;
}

/* Work that is stolen: the second half of a job is taken by the other worker. */
static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t queued = PTHREAD_COND_INITIALIZER;
static int halves[2];

static void *steals(void *unused)
{
	init("steals");
	for (;;) {
		pthread_mutex_lock(&queue_lock);
		while (!halves[0] && !halves[1])
			pthread_cond_wait(&queued, &queue_lock);
		int second = !halves[0];
		halves[second] = 0;
		pthread_mutex_unlock(&queue_lock);
		work(28 * MS);
		if (second) {
			job(released);
			continue;
		}
		pthread_mutex_lock(&queue_lock);
		halves[1] = 1;
		pthread_cond_signal(&queued);
		pthread_mutex_unlock(&queue_lock);
		until(now() + MS); /* something else first: the other one takes it */
	}
	return unused;
}

static void queue_post(int second)
{
	(void)second;
	pthread_mutex_lock(&queue_lock);
	halves[0] = 1;
	pthread_cond_signal(&queued);
	pthread_mutex_unlock(&queue_lock);
}

static void *stealing(void *unused)
{
	pthread_t other;

	for (int i = 0; i < 2; i++)
		pthread_create(&other, 0, steals, 0);
	pthread_join(posting(queue_post, 0), 0);
	until(truth->end);
	return unused;
}
