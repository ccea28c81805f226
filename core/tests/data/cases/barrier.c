// barrier: FIFO-80 "control" (CPU 0) waits at a barrier of three, which FIFO-50 "slow" (CPU 1) reaches 4 ms late; FIFO-60 "quick" is there before
#include "markers.h"
static pthread_barrier_t b; static ns_t T0; enum{N=3};
static void*slow(void*x){ who("slow"); pin(1); fifo(50); for(int i=0;i<N;i++){ until(T0+i*60*MS+100*US); spin_cpu(i==2?4*MS:200*US); pthread_barrier_wait(&b);} return 0; }
static void*quick(void*x){ who("quick"); pin(1); fifo(60); for(int i=0;i<N;i++){ until(T0+i*60*MS+50*US); pthread_barrier_wait(&b);} return 0; }
static void*control(void*x){ who("control"); pin(0); fifo(80); for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); pthread_barrier_wait(&b); mark(601,i);} return 0; }
int main(void){ memlock(); pthread_barrier_init(&b,0,3); T0=now()+300*MS; pthread_t t[3]; pthread_create(t,0,slow,0); pthread_create(t+1,0,quick,0); pthread_create(t+2,0,control,0); for(int i=0;i<3;i++) pthread_join(t[i],0); return 0; }
