/*
 * POSIX threads (POSIX.13's minimal profile) as threads of the runtime: include this in place of <pthread.h>, <semaphore.h> and
 * <sched.h>, or compile with -include lathunt/pthread.h. The runtime starts at the first call that needs it. C11, C++17.
 *
 * Priorities are 0 to 98 for SCHED_FIFO and SCHED_RR; SCHED_OTHER is round robin at priority 0. No privileges are needed.
 * malloc is made safe (lathunt/runtime_malloc.h), and in C the output functions of stdio are called with the scheduler held.
 * LATHUNT_PTHREAD_IO, defined before: read, write, recv, send, accept, connect block the calling thread alone.
 * Not there: cancellation of type asynchronous, process-shared objects, robust mutexes, rwlocks, spin locks.
 */
#ifndef LATHUNT_PTHREAD_H
#define LATHUNT_PTHREAD_H

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <lathunt/runtime.h>
#ifdef __GLIBC__
#include <lathunt/runtime_malloc.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

int lathunt_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *argument);
int lathunt_pthread_join(pthread_t thread, void **result);
int lathunt_pthread_detach(pthread_t thread);
LATHUNT_RT_NORETURN void lathunt_pthread_exit(void *result);
pthread_t lathunt_pthread_self(void);
int lathunt_pthread_equal(pthread_t a, pthread_t b);
int lathunt_pthread_once(pthread_once_t *once, void (*function)(void));
int lathunt_pthread_cancel(pthread_t thread);
void lathunt_pthread_testcancel(void);
int lathunt_pthread_setcancelstate(int state, int *old);
int lathunt_pthread_setschedprio(pthread_t thread, int priority);
int lathunt_pthread_setschedparam(pthread_t thread, int policy, const struct sched_param *parameters);
int lathunt_pthread_getschedparam(pthread_t thread, int *policy, struct sched_param *parameters);
int lathunt_pthread_attr_init(pthread_attr_t *attributes);
int lathunt_pthread_attr_destroy(pthread_attr_t *attributes);
int lathunt_pthread_attr_setdetachstate(pthread_attr_t *attributes, int state);
int lathunt_pthread_attr_setinheritsched(pthread_attr_t *attributes, int inherit);
int lathunt_pthread_attr_setschedpolicy(pthread_attr_t *attributes, int policy);
int lathunt_pthread_attr_setschedparam(pthread_attr_t *attributes, const struct sched_param *parameters);
int lathunt_pthread_attr_getschedparam(const pthread_attr_t *attributes, struct sched_param *parameters);
int lathunt_pthread_attr_setstacksize(pthread_attr_t *attributes, size_t bytes);
int lathunt_pthread_mutexattr_init(pthread_mutexattr_t *attributes);
int lathunt_pthread_mutexattr_destroy(pthread_mutexattr_t *attributes);
int lathunt_pthread_mutexattr_settype(pthread_mutexattr_t *attributes, int type);
int lathunt_pthread_mutexattr_setprotocol(pthread_mutexattr_t *attributes, int protocol);
int lathunt_pthread_mutexattr_setprioceiling(pthread_mutexattr_t *attributes, int ceiling);
int lathunt_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes);
int lathunt_pthread_mutex_destroy(pthread_mutex_t *mutex);
int lathunt_pthread_mutex_lock(pthread_mutex_t *mutex);
int lathunt_pthread_mutex_trylock(pthread_mutex_t *mutex);
int lathunt_pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *until);
int lathunt_pthread_mutex_unlock(pthread_mutex_t *mutex);
int lathunt_pthread_condattr_init(pthread_condattr_t *attributes);
int lathunt_pthread_condattr_destroy(pthread_condattr_t *attributes);
int lathunt_pthread_condattr_setclock(pthread_condattr_t *attributes, clockid_t clock);
int lathunt_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attributes);
int lathunt_pthread_cond_destroy(pthread_cond_t *cond);
int lathunt_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int lathunt_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until);
int lathunt_pthread_cond_signal(pthread_cond_t *cond);
int lathunt_pthread_cond_broadcast(pthread_cond_t *cond);
int lathunt_pthread_barrier_init(pthread_barrier_t *barrier, const pthread_barrierattr_t *attributes, unsigned threads);
int lathunt_pthread_barrier_destroy(pthread_barrier_t *barrier);
int lathunt_pthread_barrier_wait(pthread_barrier_t *barrier);
int lathunt_pthread_key_create(pthread_key_t *key, void (*destructor)(void *));
int lathunt_pthread_key_delete(pthread_key_t key);
void *lathunt_pthread_getspecific(pthread_key_t key);
int lathunt_pthread_setspecific(pthread_key_t key, const void *value);
int lathunt_sem_init(sem_t *sem, int shared, unsigned value);
int lathunt_sem_destroy(sem_t *sem);
int lathunt_sem_wait(sem_t *sem);
int lathunt_sem_trywait(sem_t *sem);
int lathunt_sem_timedwait(sem_t *sem, const struct timespec *until);
int lathunt_sem_post(sem_t *sem);
int lathunt_sem_getvalue(sem_t *sem, int *value);
int lathunt_nanosleep(const struct timespec *time, struct timespec *left);
int lathunt_clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left);
unsigned lathunt_sleep(unsigned seconds);
int lathunt_usleep(useconds_t us);
int lathunt_sched_yield(void);

/* Handlers that run when the thread ends before the pop: by pthread_exit or cancellation. */
struct lathunt_cleanup {
    void (*function)(void *);
    void *argument;
    struct lathunt_cleanup *below;
};
void lathunt_cleanup_push(struct lathunt_cleanup *cleanup);
void lathunt_cleanup_pop(struct lathunt_cleanup *cleanup, int execute);

#ifdef __cplusplus
}
#endif

#undef pthread_cleanup_push
#undef pthread_cleanup_pop
#define pthread_cleanup_push(routine, value)                                                        \
    do {                                                                                            \
        struct lathunt_cleanup lathunt_cleanup_here;                                                \
        lathunt_cleanup_here.function = (routine);                                                  \
        lathunt_cleanup_here.argument = (value);                                                    \
        lathunt_cleanup_push(&lathunt_cleanup_here);
#define pthread_cleanup_pop(execute)                                                                \
        lathunt_cleanup_pop(&lathunt_cleanup_here, (execute));                                      \
    } while (0)

#define pthread_create lathunt_pthread_create
#define pthread_join lathunt_pthread_join
#define pthread_detach lathunt_pthread_detach
#define pthread_exit lathunt_pthread_exit
#define pthread_self lathunt_pthread_self
#define pthread_equal lathunt_pthread_equal
#define pthread_once lathunt_pthread_once
#define pthread_cancel lathunt_pthread_cancel
#define pthread_testcancel lathunt_pthread_testcancel
#define pthread_setcancelstate lathunt_pthread_setcancelstate
#define pthread_setschedprio lathunt_pthread_setschedprio
#define pthread_setschedparam lathunt_pthread_setschedparam
#define pthread_getschedparam lathunt_pthread_getschedparam
#define pthread_attr_init lathunt_pthread_attr_init
#define pthread_attr_destroy lathunt_pthread_attr_destroy
#define pthread_attr_setdetachstate lathunt_pthread_attr_setdetachstate
#define pthread_attr_setinheritsched lathunt_pthread_attr_setinheritsched
#define pthread_attr_setschedpolicy lathunt_pthread_attr_setschedpolicy
#define pthread_attr_setschedparam lathunt_pthread_attr_setschedparam
#define pthread_attr_getschedparam lathunt_pthread_attr_getschedparam
#define pthread_attr_setstacksize lathunt_pthread_attr_setstacksize
#define pthread_mutexattr_init lathunt_pthread_mutexattr_init
#define pthread_mutexattr_destroy lathunt_pthread_mutexattr_destroy
#define pthread_mutexattr_settype lathunt_pthread_mutexattr_settype
#define pthread_mutexattr_setprotocol lathunt_pthread_mutexattr_setprotocol
#define pthread_mutexattr_setprioceiling lathunt_pthread_mutexattr_setprioceiling
#define pthread_mutex_init lathunt_pthread_mutex_init
#define pthread_mutex_destroy lathunt_pthread_mutex_destroy
#define pthread_mutex_lock lathunt_pthread_mutex_lock
#define pthread_mutex_trylock lathunt_pthread_mutex_trylock
#define pthread_mutex_timedlock lathunt_pthread_mutex_timedlock
#define pthread_mutex_unlock lathunt_pthread_mutex_unlock
#define pthread_condattr_init lathunt_pthread_condattr_init
#define pthread_condattr_destroy lathunt_pthread_condattr_destroy
#define pthread_condattr_setclock lathunt_pthread_condattr_setclock
#define pthread_cond_init lathunt_pthread_cond_init
#define pthread_cond_destroy lathunt_pthread_cond_destroy
#define pthread_cond_wait lathunt_pthread_cond_wait
#define pthread_cond_timedwait lathunt_pthread_cond_timedwait
#define pthread_cond_signal lathunt_pthread_cond_signal
#define pthread_cond_broadcast lathunt_pthread_cond_broadcast
#define pthread_barrier_init lathunt_pthread_barrier_init
#define pthread_barrier_destroy lathunt_pthread_barrier_destroy
#define pthread_barrier_wait lathunt_pthread_barrier_wait
#define pthread_key_create lathunt_pthread_key_create
#define pthread_key_delete lathunt_pthread_key_delete
#define pthread_getspecific lathunt_pthread_getspecific
#define pthread_setspecific lathunt_pthread_setspecific
#define sem_init lathunt_sem_init
#define sem_destroy lathunt_sem_destroy
#define sem_wait lathunt_sem_wait
#define sem_trywait lathunt_sem_trywait
#define sem_timedwait lathunt_sem_timedwait
#define sem_post lathunt_sem_post
#define sem_getvalue lathunt_sem_getvalue
#define nanosleep lathunt_nanosleep
#define clock_nanosleep lathunt_clock_nanosleep
#define sleep lathunt_sleep
#define usleep lathunt_usleep
#define sched_yield lathunt_sched_yield
#define sched_get_priority_max(policy) ((policy) == SCHED_OTHER ? 0 : 98)
#define sched_get_priority_min(policy) 0

#ifdef LATHUNT_PTHREAD_IO
#define read lathunt_rt_read
#define write lathunt_rt_write
#define recv(fd, buffer, bytes, flags) lathunt_rt_recv(fd, buffer, bytes, flags, LATHUNT_RT_FOREVER)
#define send(fd, buffer, bytes, flags) lathunt_rt_send(fd, buffer, bytes, flags, LATHUNT_RT_FOREVER)
#define recvfrom(fd, buffer, bytes, flags, from, size) \
    lathunt_rt_recvfrom(fd, buffer, bytes, flags, from, size, LATHUNT_RT_FOREVER)
#define sendto(fd, buffer, bytes, flags, to, size) lathunt_rt_sendto(fd, buffer, bytes, flags, to, size, LATHUNT_RT_FOREVER)
#define accept(fd, from, size) lathunt_rt_accept(fd, from, size, 0, LATHUNT_RT_FOREVER)
#define connect(fd, to, size) lathunt_rt_connect(fd, to, size, LATHUNT_RT_FOREVER)
#endif

#ifndef __cplusplus
/* stdio's locks do not distinguish threads of one kernel thread. */
__attribute__((format(printf, 1, 2), unused)) static int lathunt_printf(const char *format, ...)
{
    int count;
    va_list values;
    va_start(values, format);
    lathunt_rt_lock();
    count = vprintf(format, values);
    lathunt_rt_unlock();
    va_end(values);
    return count;
}

__attribute__((format(printf, 2, 3), unused)) static int lathunt_fprintf(FILE *file, const char *format, ...)
{
    int count;
    va_list values;
    va_start(values, format);
    lathunt_rt_lock();
    count = vfprintf(file, format, values);
    lathunt_rt_unlock();
    va_end(values);
    return count;
}

__attribute__((unused)) static int lathunt_puts(const char *text)
{
    int answer;
    lathunt_rt_lock();
    answer = puts(text);
    lathunt_rt_unlock();
    return answer;
}

__attribute__((unused)) static int lathunt_fflush(FILE *file)
{
    int answer;
    lathunt_rt_lock();
    answer = fflush(file);
    lathunt_rt_unlock();
    return answer;
}

#undef printf
#undef fprintf
#undef puts
#undef fflush
#define printf lathunt_printf
#define fprintf lathunt_fprintf
#define puts lathunt_puts
#define fflush lathunt_fflush
#endif

#endif
