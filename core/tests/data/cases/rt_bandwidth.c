// rt_bandwidth: FIFO-80 "ctrl" computes without a pause on CPU 1 while "batch" (nice 0, CPU 1) is runnable: on Linux 6.1 the RT bandwidth throttles it
#include "markers.h"
static volatile int stop;
static void*b(void*x){ who("batch"); pin(1); while(!stop); return 0;}
int main(void){ memlock(); pthread_t t; pthread_create(&t,0,b,0); who("ctrl"); pin(1); fifo(80); usleep(20000); for(int i=0;i<32;i++){ mark(600,i); spin_wall(100*MS); mark(601,i);} stop=1; struct sched_param p={0}; sched_setscheduler(0,SCHED_OTHER,&p); pthread_join(t,0); return 0; }
