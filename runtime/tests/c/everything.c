#define LATHUNT_RT_MALLOC
#include <lathunt/runtime.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHECK(condition) do { if (!(condition)) { printf("line %d: %s\n", __LINE__, #condition); exit(1); } } while (0)

static lathunt_rt_mutex mutex;
static lathunt_rt_cond cond;
static lathunt_rt_sem sem;
static lathunt_rt_barrier barrier;
static lathunt_rt_key key;
static int ready, destroyed;

static void destroy(void *value) { destroyed += *(int *)value; }

static void *waiter(void *argument)
{
    CHECK(lathunt_rt_set(key, argument) == 0 && lathunt_rt_get(key) == argument);
    CHECK(lathunt_rt_mutex_lock(&mutex) == 0);
    while (!ready)
        CHECK(lathunt_rt_cond_wait(&cond, &mutex, LATHUNT_RT_FOREVER) == 0);
    CHECK(lathunt_rt_mutex_unlock(&mutex) == 0);
    CHECK(lathunt_rt_barrier_wait(&barrier, NULL) == 0);
    lathunt_rt_exit(argument);
}

static void *forever(void *unused)
{
    (void)unused;
    return lathunt_rt_sem_take(&sem, LATHUNT_RT_FOREVER) == ECANCELED ? &sem : NULL;
}

static void *allocates(void *unused)
{
    uint64_t end = lathunt_rt_now() + 100000000;
    while (lathunt_rt_now() < end) {
        char *memory = (char *)malloc(1000);
        memset(memory, 1, 1000);
        memory = (char *)realloc(memory, 3000);
        free(memory);
    }
    return unused;
}

static ssize_t in_helper(void *argument) { *(int *)argument = 1; errno = EDOM; return -1; }

int main(void)
{
    lathunt_rt_config config;
    lathunt_rt_params params;
    lathunt_rt_thread thread, other;
    lathunt_rt_account account;
    lathunt_rt_queue *queue;
    void *result;
    char text[64];
    size_t bytes = sizeof text;
    uint32_t priority;
    int value = 5, last = 0;

    CHECK(lathunt_rt_self().id == 0);
    CHECK(lathunt_rt_sleep(1) == ENOTSUP);
    memset(&config, 0, sizeof config);
    config.main_priority = 200;
    CHECK(lathunt_rt_start(&config) == EINVAL && strstr(lathunt_rt_reason(), "0 to 98"));
    config.main_priority = 10;
    config.preemption = LATHUNT_RT_TIMER;
    CHECK(lathunt_rt_start(&config) == 0);
    CHECK(lathunt_rt_start(&config) == EALREADY);

    CHECK(lathunt_rt_mutex_lock(&mutex) == EINVAL); /* not initialised */
    CHECK(lathunt_rt_mutex_init(&mutex, LATHUNT_RT_CEILING, 40) == 0);
    CHECK(lathunt_rt_cond_init(&cond) == 0 && lathunt_rt_sem_init(&sem, 0) == 0);
    CHECK(lathunt_rt_barrier_init(&barrier, 2) == 0 && lathunt_rt_key_create(&key, destroy) == 0);

    memset(&params, 0, sizeof params);
    params.name = "waiter";
    params.priority = 30;
    CHECK(lathunt_rt_create(&thread, &params, waiter, &value) == 0);
    CHECK(lathunt_rt_mutex_try(&mutex) == 0 && lathunt_rt_mutex_try(&mutex) == EBUSY);
    CHECK(lathunt_rt_mutex_lock(&mutex) == EDEADLK);
    ready = 1;
    CHECK(lathunt_rt_cond_broadcast(&cond) == 0 && lathunt_rt_mutex_unlock(&mutex) == 0);
    CHECK(lathunt_rt_mutex_unlock(&mutex) == EPERM);
    CHECK(lathunt_rt_barrier_wait(&barrier, &last) == 0 && last == 1);
    CHECK(lathunt_rt_join(thread, &result, LATHUNT_RT_FOREVER) == 0 && result == &value);
    CHECK(destroyed == 5);
    CHECK(lathunt_rt_join(thread, NULL, LATHUNT_RT_FOREVER) == ESRCH);

    CHECK(lathunt_rt_create(&thread, &params, forever, NULL) == 0);
    CHECK(lathunt_rt_join(thread, NULL, lathunt_rt_now() + 1000000) == ETIMEDOUT);
    CHECK(lathunt_rt_cancel(thread) == 0 && lathunt_rt_join(thread, &result, LATHUNT_RT_FOREVER) == 0 && result == &sem);
    CHECK(lathunt_rt_sem_take(&sem, 0) == EAGAIN && lathunt_rt_sem_post(&sem) == 0 && lathunt_rt_sem_take(&sem, 0) == 0);

    params.policy = LATHUNT_RT_EDF;
    CHECK(lathunt_rt_create(&thread, &params, forever, NULL) == EINVAL && strstr(lathunt_rt_reason(), "deadline"));

    queue = lathunt_rt_queue_create(4, sizeof text);
    CHECK(queue && lathunt_rt_queue_send(queue, "low", 4, 1, 0) == 0 && lathunt_rt_queue_send(queue, "high", 5, 9, 0) == 0);
    CHECK(lathunt_rt_queue_receive(queue, text, &bytes, &priority, 0) == 0 && bytes == 5 && priority == 9 && !strcmp(text, "high"));
    CHECK(lathunt_rt_queue_send(queue, text, 65, 1, 0) == EMSGSIZE);
    lathunt_rt_queue_destroy(queue);

    params.policy = LATHUNT_RT_ROUND_ROBIN;
    params.quantum_ns = 20000;
    params.priority = 5;
    CHECK(lathunt_rt_create(&thread, &params, allocates, NULL) == 0 && lathunt_rt_create(&other, &params, allocates, NULL) == 0);
    CHECK(lathunt_rt_join(thread, NULL, LATHUNT_RT_FOREVER) == 0);
    CHECK(lathunt_rt_account_of(other, &account) == 0 && account.dispatches > 20 && account.stack_bytes > 100000);
    CHECK(lathunt_rt_join(other, NULL, LATHUNT_RT_FOREVER) == 0);

    value = 0;
    errno = 0;
    CHECK(lathunt_rt_in_helper(in_helper, &value) == -1 && errno == EDOM && value == 1);
    lathunt_rt_lock();
    CHECK(lathunt_rt_sleep(1) == EPERM);
    lathunt_rt_unlock();
    CHECK(lathunt_rt_to_monotonic(CLOCK_MONOTONIC, 7) == 7);
    CHECK(lathunt_rt_report(text, sizeof text) > 10);
    lathunt_rt_stop();
    puts("all");
    return 0;
}
