// pipe_full: FIFO-80 "producer" (CPU 0) writes to a full pipe until FIFO-50 "consumer" (CPU 1), which is preempted 4 ms by FIFO-70 "hog", reads
#include "markers.h"
static int p[2]; static ns_t T0; enum{N=3};
static void*consumer(void*x){ who("consumer"); pin(1); fifo(50); static char b[4096]; for(int i=0;i<N;i++){ until(T0+i*60*MS+200*US); spin_cpu(200*US); if(read(p[0],b,4096)!=4096) perror("r"); } return 0; }
static void*hog(void*x){ who("hog"); pin(1); fifo(70); for(int i=0;i<N;i++){ until(T0+i*60*MS+300*US); if(i==2) spin_wall(4*MS);} return 0; }
static void*producer(void*x){ who("producer"); pin(0); fifo(80); static char b[4096]; for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); if(write(p[1],b,4096)!=4096) perror("w"); mark(601,i);} return 0; }
int main(void){ memlock(); if(pipe(p)) perror("pipe"); fcntl(p[1],F_SETPIPE_SZ,4096); static char b[4096]; if(write(p[1],b,4096)!=4096) perror("w0"); T0=now()+300*MS; pthread_t t[3]; pthread_create(t,0,consumer,0); pthread_create(t+1,0,hog,0); pthread_create(t+2,0,producer,0); for(int i=0;i<3;i++) pthread_join(t[i],0); return 0; }
