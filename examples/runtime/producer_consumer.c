/* The classic: POSIX threads, compiled unchanged against the runtime.
   cc -O2 -include lathunt/pthread.h producer_consumer.c $(pkg-config --cflags --libs lathunt-runtime) */
#include <pthread.h>
#include <stdio.h>

#define ITEMS 1000
#define ROOM 8

static int buffer[ROOM], count, put, taken;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_empty = PTHREAD_COND_INITIALIZER, not_full = PTHREAD_COND_INITIALIZER;

static void *produce(void *unused)
{
    for (int item = 1; item <= ITEMS; item++) {
        pthread_mutex_lock(&mutex);
        while (count == ROOM)
            pthread_cond_wait(&not_full, &mutex);
        buffer[put++ % ROOM] = item;
        count++;
        pthread_cond_signal(&not_empty);
        pthread_mutex_unlock(&mutex);
    }
    return unused;
}

static void *consume(void *sum)
{
    for (int item = 0; item < ITEMS; item++) {
        pthread_mutex_lock(&mutex);
        while (count == 0)
            pthread_cond_wait(&not_empty, &mutex);
        *(long *)sum += buffer[taken++ % ROOM];
        count--;
        pthread_cond_signal(&not_full);
        pthread_mutex_unlock(&mutex);
    }
    return sum;
}

int main(void)
{
    pthread_t producer, consumer;
    long sum = 0;
    void *result;
    if (pthread_create(&consumer, NULL, consume, &sum) || pthread_create(&producer, NULL, produce, NULL))
        return 1;
    pthread_join(producer, NULL);
    pthread_join(consumer, &result);
    printf("%d items, sum %ld\n", ITEMS, *(long *)result);
    return sum != (long)ITEMS * (ITEMS + 1) / 2;
}
