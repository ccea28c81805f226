#include <lathunt/pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

static volatile int handled;

/* Works for 20 ms. */
static void on_signal(int number)
{
    struct timespec from, now;
    (void)number;
    handled = 1;
    clock_gettime(CLOCK_MONOTONIC, &from);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - from.tv_sec) * 1000000000L + now.tv_nsec - from.tv_nsec < 20000000L);
}

static int deep(int level) { volatile char bytes[4096]; bytes[0] = (char)level; return level + deep(level + 1) + bytes[0]; }
static void *overflow(void *unused) { printf("%d\n", deep(0)); return unused; }

static void *beats(void *count)
{
    for (;;) { ++*(volatile int *)count; usleep(1000); }
    return NULL;
}

int main(int count, char **arguments)
{
    pthread_t thread;
    (void)count;
    if (!strcmp(arguments[1], "overflow")) {
        pthread_create(&thread, NULL, overflow, NULL);
        pthread_join(thread, NULL);
    } else if (!strcmp(arguments[1], "fork")) {
        int status;
        pthread_self();
        if (fork() == 0)
            _exit(lathunt_rt_sleep(1) == 95 ? 7 : 1); /* ENOTSUP */
        wait(&status);
        usleep(1000);
        printf("child %d\n", WEXITSTATUS(status));
    } else if (!strcmp(arguments[1], "exec")) {
        pthread_self();
        execlp("echo", "echo", "executed", NULL);
    } else if (!strcmp(arguments[1], "handler")) {
        /* A handler of the program is preempted like the thread on which it runs. */
        int beat = 0;
        struct sched_param parameters = {.sched_priority = 9};
        signal(SIGUSR1, on_signal);
        pthread_create(&thread, NULL, beats, &beat);
        pthread_setschedparam(thread, SCHED_FIFO, &parameters);
        int before = beat;
        raise(SIGUSR1);
        printf("handled %d, %s\n", handled, beat > before ? "preempted" : "not preempted");
    } else if (!strcmp(arguments[1], "stuck")) {
        sem_t sem;
        sem_init(&sem, 0, 0);
        alarm(1);
        sem_wait(&sem);
    } else if (!strcmp(arguments[1], "last")) {
        int beat = 0;
        pthread_create(&thread, NULL, beats, &beat);
        pthread_cancel(thread);
        pthread_exit(NULL);
    }
    return 0;
}
