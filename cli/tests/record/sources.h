/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once
/* Jobs that are released by a kernel object of their own each; two of them are one late job in two halves. */
#include "hidden.h"
#include <linux/io_uring.h>
#include <linux/netlink.h>
#include <linux/userfaultfd.h>
#include <netinet/in.h>
#include <sys/fanotify.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

/* The thread that releases: calls `post(k)` at each release, and again 35 ms later if `twice`. */
struct posts {
	void (*post)(int second);
	int twice;
};
static volatile ns released;

static void *poster(void *of)
{
	struct posts *posts = of;

	init("poster");
	pin(0);
	fifo(70);
	for (ns r = truth->begin + 20 * MS; r < truth->end + PERIOD; r += PERIOD) {
		until(r);
		released = r;
		posts->post(0);
		if (posts->twice) {
			until(r + 35 * MS);
			posts->post(1);
		}
	}
	return 0;
}

static pthread_t posting(void (*post)(int), int twice)
{
	static struct posts posts;
	pthread_t thread;

	posts = (struct posts){post, twice};
	pthread_create(&thread, 0, poster, &posts);
	return thread;
}

/* Work of one half: the job is over after the second one. */
static void half(int second)
{
	work(28 * MS);
	if (second)
		job(released);
}

static int object;

/* System V messages. */
static void msg_post(int second)
{
	struct { long type; char text[1]; } message = {1, {(char)second}};

	msgsnd(object, &message, 1, 0);
}

static void *sysvhalf(void *unused)
{
	struct { long type; char text[1]; } message;

	object = msgget(IPC_PRIVATE, 0600);
	init("sysvhalf");
	posting(msg_post, 1);
	while (now() < truth->end - PERIOD && msgrcv(object, &message, 1, 0, 0) == 1)
		half(message.text[0]);
	msgctl(object, IPC_RMID, 0);
	return unused;
}

/* System V semaphores. */
static void sem_up(int second)
{
	struct sembuf up = {0, 1, 0};

	(void)second;
	semop(object, &up, 1);
}

static void *semlate(void *unused)
{
	struct sembuf down = {0, -1, 0};

	object = semget(IPC_PRIVATE, 1, 0600);
	init("semlate");
	posting(sem_up, 0);
	for (int k = 0; now() < truth->end - PERIOD && !semop(object, &down, 1); k++) {
		work(k % 3 == 1 ? LATE : MS);
		job(released);
	}
	semctl(object, 0, IPC_RMID);
	return unused;
}

/* An eventfd as a semaphore. */
static void event_post(int second)
{
	uint64_t one = 1;

	(void)second;
	if (write(object, &one, 8) != 8)
		exit(77);
}

static void *efdhalf(void *unused)
{
	uint64_t one;

	object = eventfd(0, EFD_SEMAPHORE);
	init("efdhalf");
	posting(event_post, 1);
	for (int k = 0; now() < truth->end - PERIOD && read(object, &one, 8) == 8; k++)
		half(k % 2);
	return unused;
}

/* poll for one of 257 descriptors. */
static void *pollmany(void *unused)
{
	static struct pollfd all[257];
	uint64_t one;

	object = eventfd(0, EFD_SEMAPHORE);
	for (int i = 0; i < 257; i++)
		all[i] = (struct pollfd){i == 256 ? object : eventfd(0, 0), POLLIN, 0};
	init("pollmany");
	posting(event_post, 1);
	for (int k = 0; now() < truth->end - PERIOD && ppoll(all, 257, 0, 0) == 1; k++)
		if (read(object, &one, 8) == 8)
			half(k % 2);
	return unused;
}

/* An epoll in an epoll, edge-triggered and for one shot each. */
static void *nested(void *unused)
{
	int outer = epoll_create1(0), inner = epoll_create1(0);
	struct epoll_event in = {EPOLLIN | EPOLLET | EPOLLONESHOT, {.fd = inner}}, event = in;
	uint64_t one;

	object = eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK);
	epoll_ctl(inner, EPOLL_CTL_ADD, object, &in);
	epoll_ctl(outer, EPOLL_CTL_ADD, inner, &in);
	init("nested");
	posting(event_post, 1);
	for (int k = 0; now() < truth->end - PERIOD && epoll_wait(outer, &event, 1, -1) == 1;) {
		if (epoll_wait(inner, &event, 1, 0) == 1 && read(object, &one, 8) == 8)
			half(k++ % 2);
		epoll_ctl(inner, EPOLL_CTL_MOD, object, &in);
		epoll_ctl(outer, EPOLL_CTL_MOD, inner, &in);
	}
	return unused;
}

/* Two threads share an epoll for one shot: each half of a job is done by whichever is free. */
static int shared_epoll;

static void *one_shot(void *unused)
{
	static _Atomic int nth;
	struct epoll_event in = {EPOLLIN | EPOLLONESHOT, {0}}, event;
	uint64_t one;

	init("oneshot");
	while (now() < truth->end - PERIOD) {
		if (epoll_wait(shared_epoll, &event, 1, 100) != 1 || read(object, &one, 8) != 8)
			continue;
		epoll_ctl(shared_epoll, EPOLL_CTL_MOD, object, &in);
		half(nth++ % 2);
	}
	return unused;
}

static void *oneshot(void *unused)
{
	struct epoll_event in = {EPOLLIN | EPOLLONESHOT, {0}};
	pthread_t other;

	object = eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK);
	shared_epoll = epoll_create1(0);
	epoll_ctl(shared_epoll, EPOLL_CTL_ADD, object, &in);
	pthread_create(&other, 0, one_shot, 0);
	posting(event_post, 1);
	one_shot(0);
	pthread_join(other, 0);
	return unused;
}

/* Netlink messages between two sockets of the program. */
static struct sockaddr_nl link_address = {.nl_family = AF_NETLINK};

static void link_post(int second)
{
	struct { struct nlmsghdr header; int second; } message = {{sizeof(message), NLMSG_MIN_TYPE, 0, 0, 0}, second};
	static int out = -1;

	if (out < 0)
		out = socket(AF_NETLINK, SOCK_RAW, NETLINK_USERSOCK);
	if (sendto(out, &message, sizeof(message), 0, (void *)&link_address, sizeof(link_address)) < 0)
		exit(77);
}

static void *linkhalf(void *unused)
{
	struct { struct nlmsghdr header; int second; } message;
	socklen_t length = sizeof(link_address);

	object = socket(AF_NETLINK, SOCK_RAW, NETLINK_USERSOCK);
	if (bind(object, (void *)&link_address, length) || getsockname(object, (void *)&link_address, &length))
		exit(77);
	init("linkhalf");
	posting(link_post, 1);
	while (now() < truth->end - PERIOD && recv(object, &message, sizeof(message), 0) > 0)
		half(message.second);
	return unused;
}

/* A file lock: the holder lets go at the release. */
static int lock_file[2];

static void lock_post(int second)
{
	(void)second;
	flock(lock_file[0], LOCK_UN);
	until(now() + MS);
	flock(lock_file[0], LOCK_EX);
}

static void *flocklate(void *unused)
{
	lock_file[0] = open("/tmp", O_TMPFILE | O_RDWR, 0600);
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", lock_file[0]);
	lock_file[1] = open(path, O_RDWR);
	flock(lock_file[0], LOCK_EX);
	init("flocklate");
	posting(lock_post, 0);
	for (int k = 0; now() < truth->end - 2 * PERIOD; k++) {
		if (flock(lock_file[1], LOCK_EX) || flock(lock_file[1], LOCK_UN))
			break;
		work(k % 3 == 1 ? LATE : 5 * MS);
		job(released);
	}
	return unused;
}

/* Files that are opened: fanotify and inotify. */
static char watched[] = "/tmp/lathunt-XXXXXX";

static void open_post(int second)
{
	int fd = open(watched, O_RDONLY);

	(void)second;
	close(fd);
}

static void *fanhalf(void *unused)
{
	struct fanotify_event_metadata event;

	close(mkstemp(watched));
	object = fanotify_init(FAN_CLASS_NOTIF, O_RDONLY);
	if (object < 0 || fanotify_mark(object, FAN_MARK_ADD, FAN_OPEN, AT_FDCWD, watched))
		exit(77);
	init("fanhalf");
	posting(open_post, 1);
	for (int k = 0; now() < truth->end - PERIOD && read(object, &event, sizeof(event)) > 0; k++) {
		close(event.fd);
		half(k % 2);
	}
	unlink(watched);
	return unused;
}

static void *inolate(void *unused)
{
	char event[4096];

	close(mkstemp(watched));
	object = inotify_init1(0);
	inotify_add_watch(object, watched, IN_OPEN);
	init("inolate");
	posting(open_post, 0);
	for (int k = 0; now() < truth->end - PERIOD && read(object, event, sizeof(event)) > 0; k++) {
		work(k % 3 == 1 ? LATE : MS);
		job(released);
	}
	unlink(watched);
	return unused;
}

/* A robust mutex whose owner dies. */
static pthread_mutex_t robust;

static void *dies(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&robust);
	until(released);
	return 0; /* as its owner */
}

static void *robustlate(void *unused)
{
	pthread_mutexattr_t kind;
	pthread_t owner;

	init("robustlate");
	pthread_mutexattr_init(&kind);
	pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&robust, &kind);
	for (ns k = 0, r = now() + 20 * MS; r < truth->end; k++, r += PERIOD) {
		released = r;
		pthread_create(&owner, 0, dies, 0);
		until(r - 10 * MS);
		if (pthread_mutex_lock(&robust) == EOWNERDEAD)
			pthread_mutex_consistent(&robust);
		pthread_mutex_unlock(&robust);
		pthread_join(owner, 0);
		work(k % 3 == 1 ? LATE : MS);
		job(r);
	}
	return unused;
}
