/* A UDP echo server beside a control loop: the server's blocking calls stop only itself, and the loop preempts it.
   cc -O2 echo_and_control.c $(pkg-config --cflags --libs lathunt-runtime)       ./echo_and_control [DATAGRAMS] */
#include <arpa/inet.h>
#include <inttypes.h>
#include <lathunt/runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int sockets[2];
static struct sockaddr_in addresses[2];

static void *echo(void *unused)
{
    char buffer[256];
    for (;;) {
        struct sockaddr_in from;
        socklen_t size = sizeof from;
        ssize_t bytes = lathunt_rt_recvfrom(sockets[0], buffer, sizeof buffer, 0, (struct sockaddr *)&from, &size,
                                            LATHUNT_RT_FOREVER);
        if (bytes < 0)
            return unused;
        lathunt_rt_sendto(sockets[0], buffer, (size_t)bytes, 0, (struct sockaddr *)&from, size, LATHUNT_RT_FOREVER);
    }
}

static void *control(void *unused)
{
    while (lathunt_rt_next_job() == 0) {
        /* ... read, compute, write ... */
    }
    return unused;
}

int main(int count, char **arguments)
{
    int datagrams = count > 1 ? atoi(arguments[1]) : 1000, lost = 0;
    lathunt_rt_thread server, loop;
    lathunt_rt_params fast = {0}, slow = {0};
    lathunt_rt_account account;
    uint64_t worst = 0;

    for (int i = 0; i < 2; i++) {
        socklen_t size = sizeof addresses[i];
        sockets[i] = socket(AF_INET, SOCK_DGRAM, 0);
        memset(&addresses[i], 0, size);
        addresses[i].sin_family = AF_INET;
        addresses[i].sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (sockets[i] < 0 || bind(sockets[i], (struct sockaddr *)&addresses[i], size) ||
            getsockname(sockets[i], (struct sockaddr *)&addresses[i], &size)) {
            perror("socket");
            return 1;
        }
    }
    if (lathunt_rt_start(NULL)) {
        fprintf(stderr, "cannot start: %s\n", lathunt_rt_reason());
        return 1;
    }
    fast.name = "control";
    fast.priority = 50;
    fast.release = LATHUNT_RT_PERIODIC;
    fast.interval_ns = fast.deadline_ns = 1000000;
    slow.name = "echo";
    slow.priority = 20;
    if (lathunt_rt_create(&loop, &fast, control, NULL) || lathunt_rt_create(&server, &slow, echo, NULL)) {
        fprintf(stderr, "cannot create: %s\n", lathunt_rt_reason());
        return 1;
    }
    for (int i = 0; i < datagrams; i++) {
        char buffer[256] = "ping";
        uint64_t begin = lathunt_rt_now();
        lathunt_rt_sendto(sockets[1], buffer, 5, 0, (struct sockaddr *)&addresses[0], sizeof addresses[0],
                          LATHUNT_RT_FOREVER);
        if (lathunt_rt_recv(sockets[1], buffer, sizeof buffer, 0, begin + 1000000000) != 5)
            lost++;
        else if (lathunt_rt_now() - begin > worst)
            worst = lathunt_rt_now() - begin;
        if (i % 100 == 99)
            lathunt_rt_sleep(2000000);
    }
    lathunt_rt_account_of(loop, &account);
    printf("%d datagrams, %d lost, worst round trip %.1f us; control loop: %" PRIu64 " jobs, %" PRIu64 " misses\n",
           datagrams, lost, (double)worst / 1000, account.jobs, account.misses);
    lathunt_rt_cancel(server);
    lathunt_rt_join(server, NULL, LATHUNT_RT_FOREVER);
    lathunt_rt_stop();
    return lost != 0;
}
