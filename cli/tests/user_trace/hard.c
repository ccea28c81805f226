/*
 * Hard circumstances, by name. Emits test:count as emitter.c does, and prints how many events it has emitted.
 *     hard threads N | churn N | forks N | large N | nospace | dlopen LIBRARY
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lathunt/trace.h>

LATHUNT_EVENT(test, count, (u32, thread), (u64, number), (str, label, 16));
LATHUNT_EVENT(test, large, (u32, thread), (u64, number), (str, label, 16), (blob, rest, 60000));

static void emit(uint32_t thread, uint64_t number)
{
    char label[17] = "abcdefghijklmnop";
    label[number % 16] = 0;
    LATHUNT_EMIT(test, count, thread, number, label);
}

static pthread_barrier_t barrier;

static void *together(void *index)
{
    uint64_t number;
    lathunt_thread_init(NULL);
    pthread_barrier_wait(&barrier);
    for (number = 0; number < 10; number++)
        emit((uint32_t)(size_t)index, number);
    pthread_barrier_wait(&barrier);
    return NULL;
}

static void *alone(void *index) /* no thread_init: the ring is claimed by the first event */
{
    uint64_t number;
    for (number = 0; number < 10; number++)
        emit((uint32_t)(size_t)index, number);
    return NULL;
}

static void threads(long count)
{
    pthread_t *all = calloc((size_t)count, sizeof(*all));
    pthread_attr_t small;
    long index;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    pthread_barrier_init(&barrier, NULL, (unsigned)count);
    for (index = 0; index < count; index++)
        if (pthread_create(&all[index], &small, together, (void *)index) != 0)
            exit(9);
    for (index = 0; index < count; index++)
        pthread_join(all[index], NULL);
    free(all);
}

int main(int argc, char **argv)
{
    long count = argc > 2 ? atol(argv[2]) : 0, index;
    const char *what = argc > 1 ? argv[1] : "";
    for (index = 0; !LATHUNT_WANTED(test, count) && index < 3000; index++)
        usleep(1000);
    if (strcmp(what, "threads") == 0)
        threads(count);
    if (strcmp(what, "churn") == 0)
        for (index = 0; index < count; index++) {
            pthread_t one;
            pthread_create(&one, NULL, alone, (void *)index);
            pthread_join(one, NULL);
        }
    if (strcmp(what, "forks") == 0) {
        emit(0, 0);
        for (index = 1; index <= count; index++) {
            pid_t child = fork();
            if (child == 0) {
                if (index % 2)
                    execl("/bin/true", "true", (char *)NULL); /* never emits: leaves nothing */
                alone((void *)index);
                _exit(0);
            }
            emit(0, (uint64_t)index);
            waitpid(child, NULL, 0);
        }
    }
    if (strcmp(what, "large") == 0) {
        static char rest[60000];
        for (index = 0; index < count; index++) {
            LATHUNT_EMIT(test, large, 0, (uint64_t)index, "", rest, index % 2 ? sizeof(rest) : 5000);
            emit(0, (uint64_t)index);
        }
    }
    if (strcmp(what, "nospace") == 0)
        printf("%d\n", lathunt_thread_init("main"));
    if (strcmp(what, "dlopen") == 0)
        for (index = 0; index < 20; index++) {
            void *library = dlopen(argv[2], RTLD_NOW);
            void (*from_library)(uint64_t) = library ? (void (*)(uint64_t))(size_t)dlsym(library, "from_library") : NULL;
            if (!from_library)
                return 8;
            from_library((uint64_t)index);
            emit(0, (uint64_t)index);
            dlclose(library);
        }
    return 0;
}
