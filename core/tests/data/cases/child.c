// child: FIFO-80 "starter" (CPU 0) starts a process and waits for its end; "job" (nice 0, CPU 1) computes 3 ms and is preempted 6 ms by
// FIFO-50 "vision" the third time
#include "markers.h"
static ns_t T0;
static void*hog(void*x){ who("vision"); pin(1); fifo(50); until(T0+2*60*MS+2*MS); spin_wall(6*MS); return 0;}
int main(void){ memlock(); T0=now()+300*MS; pthread_t t; pthread_create(&t,0,hog,0); who("starter"); pin(0); fifo(80);
 for(int i=0;i<3;i++){ until(T0+i*60*MS); mark(600,i); pid_t p=fork(); if(!p){ struct sched_param q={0}; name("job"); sched_setscheduler(0,SCHED_OTHER,&q); pin(1); spin_cpu(3*MS); _exit(0);} waitpid(p,0,0); mark(601,i);} pthread_join(t,0); return 0; }
