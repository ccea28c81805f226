/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Verifies that the hot path makes no system call and no page fault: silent EVENTS emits that many events and counts the
 * faults, then emits as many again under a filter that kills the process at any system call but exit.
 *
 * Prints "silent: N events, F page faults", and ends with 7; 8: page faults, 9: the event is not enabled; killed: a system
 * call.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <lathunt/trace.h>

LATHUNT_EVENT(silent, words, (u64, a), (u64, b), (u64, c));

static uint64_t faults(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return (uint64_t)(usage.ru_minflt + usage.ru_majflt);
}

int main(int argc, char **argv)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {4, filter};
    uint64_t events = argc > 1 ? strtoull(argv[1], NULL, 10) : 10000000, i, before;
    lathunt_thread_init("main");
    for (i = 0; !LATHUNT_WANTED(silent, words) && i < 3000; i++)
        usleep(1000);
    if (!LATHUNT_WANTED(silent, words))
        return 9;
    faults(); /* touches the stack it needs */
    before = faults();
    for (i = 0; i < events; i++)
        LATHUNT_EMIT(silent, words, i, i, i);
    before = faults() - before;
    printf("silent: %llu events, %llu page faults\n", (unsigned long long)events, (unsigned long long)before);
    fflush(stdout);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        return 6;
    for (i = 0; i < events; i++)
        LATHUNT_EMIT(silent, words, i, i, i);
    syscall(SYS_exit, before == 0 ? 7 : 8);
    return 0;
}
