/*
 * Real-time threads in one ordinary process, without privileges: priorities 0 (lowest) to 98, EDF, preemptive.
 * C11, C++17; Linux on x86-64 and aarch64; link with liblathunt-runtime. What to know: runtime/README.md of lathunt.
 *
 * All times are ns of CLOCK_MONOTONIC, absolute where they are called "until" or "at". Functions return 0 or an errno,
 * calls that transfer data return what the system call returns and set errno. All functions but those that say otherwise are
 * for the kernel thread that called lathunt_rt_start: elsewhere they return ENOTSUP.
 */
#ifndef LATHUNT_RUNTIME_H
#define LATHUNT_RUNTIME_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#define LATHUNT_RT_NORETURN [[noreturn]]
#else
#define LATHUNT_RT_NORETURN _Noreturn
#endif

/* No time limit; no deadline. */
#define LATHUNT_RT_FOREVER UINT64_MAX

/* Opaque. A thread's number is never used again for another. */
typedef struct { uint64_t id; } lathunt_rt_thread;
typedef struct { uint32_t id; } lathunt_rt_mutex;
typedef struct { uint32_t id; } lathunt_rt_cond;
typedef struct { uint32_t id; } lathunt_rt_sem;
typedef struct { uint32_t id; } lathunt_rt_barrier;
typedef struct lathunt_rt_queue lathunt_rt_queue;
typedef uint32_t lathunt_rt_key;

/* How running threads are interrupted. */
enum { LATHUNT_RT_MEASURE, LATHUNT_RT_TIMER, LATHUNT_RT_HELPER, LATHUNT_RT_COOPERATIVE };

/* Zero in a field: the default. */
typedef struct {
    uint32_t threads;         /* most threads at a time [256] */
    uint32_t preemption;      /* LATHUNT_RT_MEASURE: the better of timer and helper, measured at start, 4 ms */
    uint64_t stack_bytes;     /* stack of threads that do not set one [128 KiB] */
    uint32_t main_priority;   /* of the thread that starts the runtime */
    uint32_t kernel_priority; /* SCHED_FIFO priority of the kernel thread, 1 to 98; needs CAP_SYS_NICE or RLIMIT_RTPRIO [unchanged] */
    uint64_t main_quantum_ns; /* the starting thread is round robin with this quantum [FIFO] */
    int32_t cpu_plus_one;     /* CPU on which the kernel thread stays, plus 1 [any] */
    uint32_t runaway_seconds; /* RLIMIT_RTTIME with kernel_priority [10] */
    uint32_t touch_stacks;    /* 1: stacks are backed by memory at once */
} lathunt_rt_config;

/* The caller becomes the first thread. `config` may be NULL. On failure the reason is in lathunt_rt_reason. */
int lathunt_rt_start(const lathunt_rt_config *config);
/* Threads that have not ended never continue. */
void lathunt_rt_stop(void);
/* Why the last lathunt_rt_start or lathunt_rt_create of this kernel thread failed, as a sentence. Valid until the next. */
const char *lathunt_rt_reason(void);

enum { LATHUNT_RT_FIFO, LATHUNT_RT_ROUND_ROBIN, LATHUNT_RT_EDF, LATHUNT_RT_SPORADIC_SERVER };
/* When jobs are released: once; every interval_ns from the start; by lathunt_rt_trigger, at least interval_ns apart. */
enum { LATHUNT_RT_APERIODIC, LATHUNT_RT_PERIODIC, LATHUNT_RT_SPORADIC };
/* When a job has used its budget: it is counted; it continues at priority 0 until the next release. */
enum { LATHUNT_RT_COUNT, LATHUNT_RT_BACKGROUND };

/* Zero in a field: the default or none. */
typedef struct {
    const char *name;        /* first 15 bytes count */
    uint32_t policy;
    uint32_t priority;       /* 0 to 98 */
    uint32_t release;
    uint32_t on_overrun;
    uint64_t interval_ns;    /* period or least separation */
    uint64_t deadline_ns;    /* relative to the release [none; EDF needs one] */
    uint64_t budget_ns;      /* CPU time of each job [no limit] */
    uint64_t start_at;       /* first release [now] */
    uint64_t quantum_ns;     /* round robin [10 ms] */
    uint64_t server_period_ns, server_budget_ns; /* sporadic server */
    uint32_t server_low_priority, server_replenishments;
    uint64_t stack_bytes;    /* for the program; what signals need is added */
    uint32_t detached;       /* 1: cannot be joined */
} lathunt_rt_params;

/* `params` may be NULL. A more urgent thread runs before this returns. */
int lathunt_rt_create(lathunt_rt_thread *thread, const lathunt_rt_params *params, void *(*body)(void *), void *argument);
int lathunt_rt_join(lathunt_rt_thread thread, void **result, uint64_t until);
int lathunt_rt_detach(lathunt_rt_thread thread);
LATHUNT_RT_NORETURN void lathunt_rt_exit(void *result); /* not by the first thread */
lathunt_rt_thread lathunt_rt_self(void);             /* id 0: no runtime */
/* Its waits return ECANCELED, except those for mutexes and barriers. */
int lathunt_rt_cancel(lathunt_rt_thread thread);
int lathunt_rt_set_priority(lathunt_rt_thread thread, uint32_t priority);
/* Of the current job of an EDF thread. A miss is counted only if the thread is periodic or sporadic. */
int lathunt_rt_set_deadline(lathunt_rt_thread thread, uint64_t deadline_at);
/* Posts the semaphore at each miss and overrun; NULL: stop. */
int lathunt_rt_notify(lathunt_rt_thread thread, const lathunt_rt_sem *sem);

int lathunt_rt_next_job(void); /* waits for the next release */
int lathunt_rt_trigger(lathunt_rt_thread thread);
int lathunt_rt_suspend(void);
int lathunt_rt_resume(lathunt_rt_thread thread);
void lathunt_rt_yield(void);
int lathunt_rt_sleep(uint64_t ns);
int lathunt_rt_sleep_until(uint64_t until);
uint64_t lathunt_rt_now(void); /* any thread */
/* An absolute time of CLOCK_REALTIME, CLOCK_TAI and others as one of CLOCK_MONOTONIC, at today's offset. Any thread. */
uint64_t lathunt_rt_to_monotonic(clockid_t clock, uint64_t time);

/* No other thread runs, and no call may wait, until unlocked: for functions that are not reentrant. Nests. */
void lathunt_rt_lock(void);
void lathunt_rt_unlock(void);

typedef struct {
    uint64_t jobs, misses, overruns, cpu_ns, worst_response_ns, worst_lateness_ns, preemptions, dispatches;
    uint64_t stack_used_bytes, stack_bytes; /* 0 for the first thread */
} lathunt_rt_account;
int lathunt_rt_account_of(lathunt_rt_thread thread, lathunt_rt_account *account);
/* How threads are interrupted, and the lateness measured at start, as text. Returns its length. */
size_t lathunt_rt_report(char *text, size_t bytes);

/* Protocols. CEILING: argument is the highest priority of all users. FLOOR (EDF, the stack resource policy): the shortest
   relative deadline of all users in ns. */
enum { LATHUNT_RT_NO_PROTOCOL, LATHUNT_RT_INHERIT, LATHUNT_RT_CEILING, LATHUNT_RT_FLOOR };
int lathunt_rt_mutex_init(lathunt_rt_mutex *mutex, uint32_t protocol, uint64_t argument);
int lathunt_rt_mutex_destroy(lathunt_rt_mutex *mutex);
int lathunt_rt_mutex_lock(lathunt_rt_mutex *mutex); /* EDEADLK, EINVAL above the ceiling */
int lathunt_rt_mutex_lock_until(lathunt_rt_mutex *mutex, uint64_t until);
int lathunt_rt_mutex_try(lathunt_rt_mutex *mutex); /* EBUSY */
int lathunt_rt_mutex_unlock(lathunt_rt_mutex *mutex);

int lathunt_rt_cond_init(lathunt_rt_cond *cond);
int lathunt_rt_cond_destroy(lathunt_rt_cond *cond);
int lathunt_rt_cond_wait(lathunt_rt_cond *cond, lathunt_rt_mutex *mutex, uint64_t until); /* never spurious */
int lathunt_rt_cond_signal(lathunt_rt_cond *cond);
int lathunt_rt_cond_broadcast(lathunt_rt_cond *cond);

int lathunt_rt_sem_init(lathunt_rt_sem *sem, uint32_t count);
int lathunt_rt_sem_destroy(lathunt_rt_sem *sem);
int lathunt_rt_sem_take(lathunt_rt_sem *sem, uint64_t until); /* 0: EAGAIN if none is available */
int lathunt_rt_sem_post(lathunt_rt_sem *sem);                 /* also from signal handlers */

int lathunt_rt_barrier_init(lathunt_rt_barrier *barrier, uint32_t threads);
int lathunt_rt_barrier_destroy(lathunt_rt_barrier *barrier);
int lathunt_rt_barrier_wait(lathunt_rt_barrier *barrier, int *last); /* `last` may be NULL */

/* Messages of at most `message_bytes`; the highest priority first, equal ones in their order. NULL: errno says why. */
lathunt_rt_queue *lathunt_rt_queue_create(uint32_t messages, size_t message_bytes);
void lathunt_rt_queue_destroy(lathunt_rt_queue *queue);
int lathunt_rt_queue_send(lathunt_rt_queue *queue, const void *message, size_t bytes, uint32_t priority, uint64_t until);
int lathunt_rt_queue_receive(lathunt_rt_queue *queue, void *message, size_t *bytes, uint32_t *priority, uint64_t until);

int lathunt_rt_key_create(lathunt_rt_key *key, void (*destructor)(void *));
int lathunt_rt_key_delete(lathunt_rt_key key);
void *lathunt_rt_get(lathunt_rt_key key);
int lathunt_rt_set(lathunt_rt_key key, const void *value);

/* These block only the calling thread; write and send until everything is transferred. On a kernel thread without a runtime they
   are the system calls. */
ssize_t lathunt_rt_read(int fd, void *buffer, size_t bytes);
ssize_t lathunt_rt_write(int fd, const void *buffer, size_t bytes);
ssize_t lathunt_rt_recv(int fd, void *buffer, size_t bytes, int flags, uint64_t until); /* ETIMEDOUT */
ssize_t lathunt_rt_recvfrom(int fd, void *buffer, size_t bytes, int flags, struct sockaddr *from, socklen_t *size, uint64_t until);
ssize_t lathunt_rt_send(int fd, const void *buffer, size_t bytes, int flags, uint64_t until);
ssize_t lathunt_rt_sendto(int fd, const void *buffer, size_t bytes, int flags, const struct sockaddr *to, socklen_t size,
                          uint64_t until);
int lathunt_rt_accept(int fd, struct sockaddr *from, socklen_t *size, int flags, uint64_t until);
int lathunt_rt_connect(int fd, const struct sockaddr *to, socklen_t size, uint64_t until);
struct pollfd;
int lathunt_rt_poll(struct pollfd *fds, size_t count, uint64_t until);
/* Runs a blocking function on a helper thread (real kernel thread) while the calling thread waits. */
ssize_t lathunt_rt_in_helper(ssize_t (*function)(void *), void *argument);

#ifdef __cplusplus
}
#endif

/*
 * glibc's malloc must not be interrupted by another thread that allocates. Define LATHUNT_RT_MALLOC before this header in
 * exactly one file of the program: it then defines malloc and its relatives around glibc's, with the scheduler held.
 */
#if defined(LATHUNT_RT_MALLOC) && defined(__GLIBC__)
#include <lathunt/runtime_malloc.h>
#endif

#endif
