// last_thread: FIFO-80 "control" (CPU 0) waits for a child that exits at once; its second thread "lag" (CPU 1, nice 0) is preempted by FIFO-50 "hog" for 7 ms before it can die
#include "markers.h"
enum{N=3}; static ns_t T0;
static void*lag(void*a){ (void)a; name("lag"); pin(1); for(;;){ volatile int x=0; x++; } return 0; }
int main(void){ memlock(); T0=now()+300*MS; pid_t h;
 if(!(h=fork())){ who("hog"); pin(1); fifo(50); for(int i=0;i<N;i++){ until(T0+i*60*MS-1*MS); spin_wall(i==2?8*MS:1200*US);} _exit(0);}
 who("control"); pin(0); fifo(80); for(int i=0;i<N;i++){ until(T0+i*60*MS-20*MS); pid_t c=fork(); if(!c){ struct sched_param sp={0}; sched_setscheduler(0,SCHED_OTHER,&sp); who("child"); pin(0); pthread_t t; pthread_create(&t,0,lag,0); until(T0+i*60*MS+100*US); _exit(0);} until(T0+i*60*MS); mark(600,i); waitpid(c,0,0); mark(601,i);} waitpid(h,0,0); return 0; }
