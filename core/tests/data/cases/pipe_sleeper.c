// pipe_sleeper: FIFO-80 "reader" (CPU 0) reads a pipe; FIFO-60 "feeder" (CPU 1) sleeps 5 ms of its own will before it writes the third time
#include "markers.h"
static int p[2]; static ns_t T0; enum{N=3};
static void*feeder(void*x){ who("feeder"); pin(1); fifo(60); for(int i=0;i<N;i++){ until(T0+i*60*MS+200*US); if(i==2){ struct timespec s={0,5*MS}; clock_nanosleep(CLOCK_MONOTONIC,0,&s,0);} if(write(p[1],"x",1)!=1) perror("w"); } return 0; }
static void*reader(void*x){ who("reader"); pin(0); fifo(80); char c; for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); if(read(p[0],&c,1)!=1) perror("r"); mark(601,i);} return 0; }
int main(void){ memlock(); if(pipe(p)) perror("pipe"); T0=now()+300*MS; pthread_t t[2]; pthread_create(t,0,feeder,0); pthread_create(t+1,0,reader,0); for(int i=0;i<2;i++) pthread_join(t[i],0); return 0; }
