#define _GNU_SOURCE
#include <lathunt/pthread.h>
#include <errno.h>
#include <string.h>

#define CHECK(condition) do { if (!(condition)) { printf("line %d: %s\n", __LINE__, #condition); exit(1); } } while (0)

static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static sem_t sem;
static int order[3], at, cleaned, called;

static void call_once(void) { called++; }
static void clean(void *argument) { cleaned += *(int *)argument; }
static void *arrive(void *argument) { order[at++] = *(int *)argument; return NULL; }
static void *cancelled(void *argument)
{
    pthread_cleanup_push(clean, argument);
    pthread_setspecific(key, argument);
    sem_wait(&sem);
    pthread_cleanup_pop(0);
    return NULL;
}

int main(void)
{
    pthread_t threads[3];
    pthread_attr_t attributes;
    pthread_mutexattr_t protocol;
    pthread_mutex_t mutex;
    struct sched_param parameters;
    struct timespec soon;
    void *result;
    int policy, priorities[3] = {3, 98, 40}, one = 1;

    CHECK(sched_get_priority_max(SCHED_FIFO) == 98);
    CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED) == 0);
    CHECK(pthread_attr_setschedpolicy(&attributes, SCHED_FIFO) == 0);
    parameters.sched_priority = 60;
    CHECK(pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameters) == 0);
    for (int i = 0; i < 3; i++) {
        parameters.sched_priority = i == 1 ? 50 : priorities[i];
        CHECK(pthread_attr_setschedparam(&attributes, &parameters) == 0);
        CHECK(pthread_create(&threads[i], &attributes, arrive, &priorities[i]) == 0);
    }
    for (int i = 0; i < 3; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(order[0] == 98 && order[1] == 40 && order[2] == 3);
    CHECK(pthread_getschedparam(pthread_self(), &policy, &parameters) == 0 && policy == SCHED_FIFO);
    CHECK(parameters.sched_priority == 60);

    CHECK(pthread_mutexattr_init(&protocol) == 0 && pthread_mutexattr_setprotocol(&protocol, PTHREAD_PRIO_PROTECT) == 0);
    CHECK(pthread_mutexattr_setprioceiling(&protocol, 20) == 0 && pthread_mutex_init(&mutex, &protocol) == 0);
    CHECK(pthread_mutex_lock(&mutex) == EINVAL); /* above the ceiling */
    CHECK(pthread_mutex_destroy(&mutex) == 0);
    CHECK(pthread_mutex_lock(&recursive) == 0 && pthread_mutex_lock(&recursive) == 0);
    CHECK(pthread_mutex_unlock(&recursive) == 0 && pthread_mutex_unlock(&recursive) == 0);
    CHECK(pthread_mutex_unlock(&recursive) == EPERM);

    CHECK(pthread_once(&once, call_once) == 0 && pthread_once(&once, call_once) == 0 && called == 1);
    CHECK(pthread_key_create(&key, clean) == 0 && sem_init(&sem, 0, 0) == 0);
    CHECK(pthread_create(&threads[0], NULL, cancelled, &one) == 0);
    usleep(1000);
    CHECK(pthread_cancel(threads[0]) == 0 && pthread_join(threads[0], &result) == 0);
    CHECK(result == PTHREAD_CANCELED && cleaned == 2);

    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_nsec += 1000000;
    if (soon.tv_nsec >= 1000000000) { soon.tv_sec++; soon.tv_nsec -= 1000000000; }
    CHECK(sem_timedwait(&sem, &soon) == -1 && errno == ETIMEDOUT);
    soon.tv_sec = -1;
    CHECK(nanosleep(&soon, NULL) == -1 && errno == EINVAL);
    CHECK(clock_nanosleep(CLOCK_MONOTONIC, 0, &soon, NULL) == EINVAL);
    soon.tv_sec = 0;
    CHECK(clock_nanosleep(999, 0, &soon, NULL) == EINVAL && clock_nanosleep(999, TIMER_ABSTIME, &soon, NULL) == EINVAL);
    CHECK(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &soon, NULL) == 0);
    printf("%s\n", "all");
    return 0;
}
