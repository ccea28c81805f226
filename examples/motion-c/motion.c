/*
 * A motion controller with two axes, traced: build it as any user would,
 *     cc -O2 motion.c $(pkg-config --cflags --libs lathunt-tracer) -lpthread -o motion
 *     lathunt trace --user -o /tmp/trace -- ./motion 200
 *     babeltrace2 /tmp/trace
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <lathunt/trace.h>

enum state { IDLE, MOVING, FAULT };

LATHUNT_ENUM(state, u8, (IDLE, IDLE), (MOVING, MOVING), (FAULT, FAULT));
LATHUNT_EVENT(motion, configured, (str, machine, 32), (u32, axes));
LATHUNT_EVENT(motion, setpoint, (u32, axis), (f64, position), (enum, mode, state));
LATHUNT_SPAN(motion, control, (u32, axis), (u64, cycle));

static long cycles;

static double control(unsigned axis, long cycle)
{
    LATHUNT_SCOPE(motion, control, axis, (uint64_t)cycle); /* ends wherever the function is left */
    double position = 0;
    int step;
    for (step = 0; step < 200; step++)
        position += (double)(cycle % 100) / (1.0 + axis + step);
    return position;
}

static void *run_axis(void *number)
{
    unsigned axis = (unsigned)(size_t)number;
    char name[16];
    struct timespec next;
    long cycle;
    snprintf(name, sizeof(name), "axis-%u", axis);
    lathunt_thread_init(name); /* before the deadlines: it takes memory */
    clock_gettime(CLOCK_MONOTONIC, &next);
    for (cycle = 0; cycle < cycles; cycle++) {
        double position = control(axis, cycle);
        LATHUNT_EMIT(motion, setpoint, axis, position, cycle % 10 ? MOVING : IDLE);
        next.tv_nsec += 1000000;
        if (next.tv_nsec >= 1000000000) {
            next.tv_nsec -= 1000000000;
            next.tv_sec++;
        }
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t axes[2];
    size_t axis;
    cycles = argc > 1 ? atol(argv[1]) : 1000;
    LATHUNT_EMIT_INIT(motion, configured, "two-axis gantry", 2);
    for (axis = 0; axis < 2; axis++)
        if (pthread_create(&axes[axis], NULL, run_axis, (void *)axis) != 0)
            return 1;
    for (axis = 0; axis < 2; axis++)
        pthread_join(axes[axis], NULL);
    return 0;
}
