// The least that a round trip costs: one thread sleeps until a stimulus is due, sends and waits for the answer; another one
// answers. No sequence number, no checksum, no histogram. Prints minimum, median and mean in ns. Over UDP both are processes, as
// box and responder are; else threads of one process, as those of `box --pair`.
//
// pingpong KIND INTERVAL_US COUNT CPU_FROM CPU_TO PRIORITY     KIND: pipe, eventfd, futex, udp
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MESSAGE = 40 };

struct end {
    int in, out, length;          // descriptors
    _Atomic uint32_t *here, *there; // futexes; NULL: descriptors
    uint32_t seen;
};

struct pong {
    struct end end;
    long count;
    int cpu, priority;
};

static void place(int cpu, int priority)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof(set), &set);
    prctl(PR_SET_TIMERSLACK, 1);
    struct sched_param param = { .sched_priority = priority };
    if (priority && sched_setscheduler(0, SCHED_FIFO, &param)) {
        perror("SCHED_FIFO");
        exit(1);
    }
}

static void give(struct end *end)
{
    static const char message[MESSAGE] = { 1 };
    if (end->there) {
        atomic_fetch_add(end->there, 1);
        syscall(SYS_futex, end->there, FUTEX_WAKE, 1, NULL, NULL, 0);
    } else if (write(end->out, message, end->length) != end->length) {
        perror("write");
        exit(1);
    }
}

static void take(struct end *end)
{
    char message[MESSAGE];
    if (!end->here) {
        if (read(end->in, message, end->length) != end->length) {
            perror("read");
            exit(1);
        }
        return;
    }
    while (atomic_load(end->here) == end->seen)
        syscall(SYS_futex, end->here, FUTEX_WAIT, end->seen, NULL, NULL, 0);
    end->seen++;
}

static void *answer(void *argument)
{
    struct pong *pong = argument;
    place(pong->cpu, pong->priority);
    for (long n = 0; n < pong->count; n++) {
        take(&pong->end);
        give(&pong->end);
    }
    return NULL;
}

static int socket_at(struct sockaddr_in *address)
{
    socklen_t size = sizeof(*address);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    *address = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    if (bind(fd, (void *)address, size) || getsockname(fd, (void *)address, &size)) {
        perror("bind");
        exit(1);
    }
    return fd;
}

static int order(const void *one, const void *other)
{
    int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;
    return (a > b) - (a < b);
}

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

int main(int count, char **words)
{
    if (count != 7)
        return 2;
    long interval = atol(words[2]) * 1000, n = atol(words[3]);
    int priority = atoi(words[6]);
    struct end ping = { .length = MESSAGE };
    struct pong pong = { .count = n, .cpu = atoi(words[5]), .priority = priority };
    pong.end.length = MESSAGE;
    if (!strcmp(words[1], "pipe")) {
        int out[2], back[2];
        if (pipe(out) || pipe(back))
            return 1;
        ping.out = out[1], pong.end.in = out[0], pong.end.out = back[1], ping.in = back[0];
    } else if (!strcmp(words[1], "eventfd")) {
        ping.out = pong.end.in = eventfd(0, 0);
        ping.in = pong.end.out = eventfd(0, 0);
        ping.length = pong.end.length = 8;
    } else if (!strcmp(words[1], "futex")) {
        _Atomic uint32_t *words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        ping.there = pong.end.here = &words[0];
        ping.here = pong.end.there = &words[64];
    } else if (!strcmp(words[1], "udp")) {
        struct sockaddr_in one, other;
        ping.in = ping.out = socket_at(&one);
        pong.end.in = pong.end.out = socket_at(&other);
        if (connect(ping.out, (void *)&other, sizeof(other)) || connect(pong.end.out, (void *)&one, sizeof(one)))
            return 1;
    } else {
        return 2;
    }
    int64_t *took = calloc(n, sizeof(*took)), sum = 0;
    mlockall(MCL_CURRENT | MCL_FUTURE);
    pthread_t thread;
    int apart = !strcmp(words[1], "udp");
    pid_t other = apart ? fork() : -1;
    if (other == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        mlockall(MCL_CURRENT | MCL_FUTURE);
        answer(&pong);
        return 0;
    }
    if (apart ? other < 0 : pthread_create(&thread, NULL, answer, &pong))
        return 1;
    usleep(10000);
    place(atoi(words[4]), priority);
    int64_t due = now();
    for (long at = 0; at < n; at++) {
        due += interval;
        struct timespec until = { due / 1000000000, due % 1000000000 };
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
        int64_t sent = now();
        give(&ping);
        take(&ping);
        took[at] = now() - sent;
        sum += took[at];
    }
    if (apart)
        waitpid(other, NULL, 0);
    else
        pthread_join(thread, NULL);
    qsort(took, n, sizeof(*took), order);
    printf("%lld %lld %lld\n", (long long)took[0], (long long)took[n / 2], (long long)(sum / n));
    return 0;
}
