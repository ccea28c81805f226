/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once
/* Jobs of 50 ms of work in two halves again, with waits by calls that few programs make. */
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <sys/signalfd.h>
#include "hidden.h"
#include "hidden_halves.h"

/* Two timers send two signals, which one read takes. */
static void *sigfdhalf(void *unused)
{
	ns begin = now() + MS, next = begin;

	init("sigfdhalf");
	sigset_t set = two_signals(begin);
	int fd = signalfd(-1, &set, 0);
	while (now() < truth->end) {
		struct signalfd_siginfo info;

		if (read(fd, &info, sizeof(info)) != sizeof(info))
			break;
		work(PART);
		if ((int)info.ssi_signo != SIGRTMIN) {
			job(next);
			next += PERIOD;
		}
	}
	return unused;
}

/* Released by a short wait in io_getevents; the long one in the midst of the job is the usual sleep. */
static void *aiohalf(void *unused)
{
	aio_context_t context = 0;
	struct io_event event;

	if (syscall(SYS_io_setup, 4, &context))
		exit(77);
	init("aiohalf");
	for (ns r = now() + MS; r < truth->end; r += PERIOD) {
		ns left = r - now();
		struct timespec t = at(left > 0 ? left : 1);

		syscall(SYS_io_getevents, context, 1, 1, &event, &t);
		work(10 * MS);
		until(r + 75 * MS);
		work(10 * MS);
		job(r);
	}
	return unused;
}

/* Timeouts of an io_uring; where the kernel has none, or refuses it, sleeps. */
static struct {
	int fd;
	unsigned *tail, *mask, *array, *cq_head, *cq_tail;
	struct io_uring_sqe *entries;
} ring;

static void ring_up(void)
{
	struct io_uring_params p = {0};

	ring.fd = syscall(SYS_io_uring_setup, 8, &p);
	if (ring.fd < 0)
		return;
	int protection = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_POPULATE;
	char *sq = mmap(0, p.sq_off.array + p.sq_entries * 4, protection, flags, ring.fd, IORING_OFF_SQ_RING);
	char *cq = mmap(0, p.cq_off.cqes + p.cq_entries * 16, protection, flags, ring.fd, IORING_OFF_CQ_RING);

	ring.entries = mmap(0, p.sq_entries * 64, protection, flags, ring.fd, IORING_OFF_SQES);
	ring.tail = (unsigned *)(sq + p.sq_off.tail);
	ring.mask = (unsigned *)(sq + p.sq_off.ring_mask);
	ring.array = (unsigned *)(sq + p.sq_off.array);
	ring.cq_head = (unsigned *)(cq + p.cq_off.head);
	ring.cq_tail = (unsigned *)(cq + p.cq_off.tail);
}

static void ring_until(ns t)
{
	struct { long long seconds, ns; } time = {t / 1000000000, t % 1000000000};

	if (ring.fd < 0) {
		until(t);
		return;
	}
	unsigned tail = *ring.tail, i = tail & *ring.mask;

	memset(&ring.entries[i], 0, sizeof(*ring.entries));
	ring.entries[i].opcode = IORING_OP_TIMEOUT;
	ring.entries[i].addr = (unsigned long)&time;
	ring.entries[i].len = 1;
	ring.entries[i].timeout_flags = IORING_TIMEOUT_ABS;
	ring.array[i] = i;
	__atomic_store_n(ring.tail, tail + 1, __ATOMIC_RELEASE);
	syscall(SYS_io_uring_enter, ring.fd, 1, 1, IORING_ENTER_GETEVENTS, 0, 0);
	__atomic_store_n(ring.cq_head, *ring.cq_tail, __ATOMIC_RELEASE);
}

static void *uringhalf(void *unused)
{
	ring_up();
	init("uringhalf");
	for (ns r = now() + MS; r < truth->end; r += PERIOD) {
		ring_until(r);
		work(PART);
		ring_until(r + HALF);
		work(PART);
		job(r);
	}
	return unused;
}

/* futex_waitv() on two words. */
static _Atomic unsigned words[2];
static volatile ns word_release;

static void *waitv(void *unused)
{
	struct { unsigned long long value, address; unsigned flags, reserved; } v[2];

	init("waitv");
	for (unsigned seen = 0;;) {
		for (int i = 0; i < 2; i++) {
			v[i].value = i ? 0 : seen;
			v[i].address = (unsigned long)&words[i];
			v[i].flags = 2 | 128; /* 32 bits, private */
			v[i].reserved = 0;
		}
		syscall(449, v, 2, 0, 0, 0);
		if (words[0] == seen)
			continue;
		seen = words[0];
		work(seen % 3 == 1 ? LATE : MS);
		job(word_release);
	}
	return unused;
}

static void *futexwaitv(void *unused)
{
	pthread_t t;

	pthread_create(&t, 0, waitv, 0);
	init("waker");
	fifo(61);
	PERIODIC((void)w; word_release = now(); words[0]++; syscall(SYS_futex, &words[0], FUTEX_WAKE_PRIVATE, 1, 0, 0, 0))
	return unused;
}
