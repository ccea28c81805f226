// long_call: FIFO-80 "sampler" sleeps 1 ms on CPU 1, where "mover" (nice 0) fills a pipe of 1 MB with each call: without
// preemption in the kernel the sampler has to wait for the call's end
#include "markers.h"
static ns_t T0; static volatile int stop; static char b[1<<20];
static void*mv(void*x){ who("mover"); pin(1); int p[2]; if(pipe(p)) perror("pipe"); if(fcntl(p[1],F_SETPIPE_SZ,sizeof b)<0) perror("size"); while(!stop){ if(write(p[1],b,sizeof b)<0) perror("w"); for(size_t n=0;n<sizeof b;){ ssize_t k=read(p[0],b,sizeof b); if(k<=0) break; n+=k; } } return 0; }
int main(void){ memlock(); T0=now()+300*MS; pthread_t t; pthread_create(&t,0,mv,0); who("sampler"); pin(1); fifo(80); for(int i=0;i<20;i++){ until(T0+i*3*MS+ (i*137)*US); mark(600,i); usleep(1000); mark(601,i);} stop=1; struct sched_param p={0}; sched_setscheduler(0,SCHED_OTHER,&p); pthread_join(t,0); return 0; }
