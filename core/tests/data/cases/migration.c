// mig: FIFO-80 "roamer" runs on CPU 0, is preempted by FIFO-90 "motord" there, and is pushed to CPU 1 once "other" (FIFO 85, CPU 1) is done
#include "markers.h"
static ns_t T0;
static void*m(void*x){ who("motord"); pin(0); fifo(90); until(T0+21*MS); spin_wall(6*MS); return 0;}
static void*o(void*x){ who("otherd"); pin(1); fifo(85); until(T0+20500*US); spin_wall(3*MS); return 0;}
int main(void){ memlock(); T0=now()+300*MS; pthread_t t[2]; pin(0); pthread_create(t,0,m,0); pthread_create(t+1,0,o,0); who("roamer"); fifo(80); cpu_set_t s; CPU_ZERO(&s); CPU_SET(0,&s); CPU_SET(1,&s); sched_setaffinity(0,sizeof s,&s); for(int i=0;i<3;i++){ until(T0+i*10*MS); mark(600,i); spin_cpu(2*MS); mark(601,i);} for(int i=0;i<2;i++) pthread_join(t[i],0); return 0; }
