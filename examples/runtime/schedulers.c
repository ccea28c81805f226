/* The same two tasks under rate-monotonic priorities and under EDF: (9, 20) and (15, 30) ms need 95 % of the processor. Fixed
   priorities miss deadlines of the second (response 33 > 30 ms), EDF meets all.
   cc -O2 schedulers.c $(pkg-config --cflags --libs lathunt-runtime)       ./schedulers [MILLISECONDS] [FIFO PRIORITY] */
#include <inttypes.h>
#include <lathunt/runtime.h>
#include <stdio.h>
#include <stdlib.h>

#define MS UINT64_C(1000000)

struct task { uint64_t work_ms, period_ms; };
static const struct task set[2] = {{9, 20}, {15, 30}};

static uint64_t cpu_time(void)
{
    lathunt_rt_account account;
    lathunt_rt_account_of(lathunt_rt_self(), &account);
    return account.cpu_ns;
}

static void *job_by_job(void *argument)
{
    const struct task *task = (const struct task *)argument;
    do {
        /* CPU time, not wall time: preemption must not shorten the work. */
        uint64_t begin = cpu_time();
        while (cpu_time() - begin < task->work_ms * MS)
            lathunt_rt_yield();
    } while (lathunt_rt_next_job() == 0);
    return NULL;
}

static int run(uint32_t policy, const char *name, uint64_t ms)
{
    lathunt_rt_thread threads[2];
    uint64_t start = lathunt_rt_now() + 5 * MS;
    for (int i = 0; i < 2; i++) {
        lathunt_rt_params params = {0};
        int error;
        params.name = i ? "long" : "short";
        params.policy = policy;
        params.priority = policy == LATHUNT_RT_EDF ? 10 : 20 - (uint32_t)i;
        params.release = LATHUNT_RT_PERIODIC;
        params.interval_ns = params.deadline_ns = set[i].period_ms * MS;
        params.start_at = start;
        error = lathunt_rt_create(&threads[i], &params, job_by_job, (void *)&set[i]);
        if (error) {
            fprintf(stderr, "%s: %s\n", name, lathunt_rt_reason());
            return 1;
        }
    }
    lathunt_rt_sleep(5 * MS + ms * MS);
    for (int i = 0; i < 2; i++) {
        lathunt_rt_account account;
        lathunt_rt_account_of(threads[i], &account);
        lathunt_rt_cancel(threads[i]);
        printf("%-4s task %d: %" PRIu64 " jobs, %" PRIu64 " misses, worst response %.1f of %" PRIu64 " ms\n", name, i,
               account.jobs, account.misses, (double)account.worst_response_ns / 1e6, set[i].period_ms);
        lathunt_rt_set_priority(threads[i], 95); /* to its end, before us */
    }
    for (int i = 0; i < 2; i++)
        lathunt_rt_join(threads[i], NULL, LATHUNT_RT_FOREVER);
    return 0;
}

int main(int count, char **arguments)
{
    uint64_t ms = count > 1 ? strtoull(arguments[1], NULL, 10) : 600;
    char text[200];
    lathunt_rt_config config = {0};
    config.main_priority = 90;
    config.kernel_priority = count > 2 ? (uint32_t)atoi(arguments[2]) : 0;
    if (lathunt_rt_start(&config)) {
        fprintf(stderr, "cannot start: %s\n", lathunt_rt_reason());
        return 1;
    }
    lathunt_rt_report(text, sizeof text);
    puts(text);
    if (run(LATHUNT_RT_FIFO, "RM", ms) || run(LATHUNT_RT_EDF, "EDF", ms))
        return 1;
    lathunt_rt_stop();
    return 0;
}
