// raised: FIFO-60 "control" computes 2 ms on CPU 1; "boss" (CPU 0) raises "helper" (ordinary, computing on CPU 1) to FIFO-70 for 5 ms
#include "markers.h"
enum{N=3}; static ns_t T0; static volatile int tid,stop;
static void*helper(void*x){ who("helper"); pin(1); tid=syscall(SYS_gettid); until(T0+2*60*MS-4*MS); spin_wall(14*MS); return 0; }
static void*boss(void*x){ who("boss"); pin(0); fifo(50); until(T0+2*60*MS+500*US); struct sched_param sp={.sched_priority=70}; sched_setscheduler(tid,SCHED_FIFO,&sp); until(T0+2*60*MS+5500*US); sp.sched_priority=0; sched_setscheduler(tid,SCHED_OTHER,&sp); return 0; }
static void*control(void*x){ who("control"); pin(1); fifo(60); for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); spin_cpu(2*MS); mark(601,i);} return 0; }
int main(void){ memlock(); T0=now()+300*MS; pthread_t t[3]; pthread_create(t,0,helper,0); pthread_create(t+1,0,boss,0); pthread_create(t+2,0,control,0); for(int i=0;i<3;i++) pthread_join(t[i],0); return 0; }
