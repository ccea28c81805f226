// rr_turns: SCHED_RR-40 "first" and "second" share CPU 1; "first" needs 6 ms of it, the slice is 2 ms (set and restored by the recording), "second" spins 30 ms
#include "markers.h"
static ns_t T0; enum{N=3};
static void rr(int p){ struct sched_param sp={.sched_priority=p}; if(sched_setscheduler(0,SCHED_RR,&sp)) perror("rr"); }
static void*second(void*x){ who("second"); pin(1); rr(40); until(T0+2*60*MS-3*MS); spin_cpu(12*MS); return 0; }
static void*first(void*x){ who("first"); pin(1); rr(40); for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); spin_cpu(i==2?6*MS:1*MS); mark(601,i);} return 0; }
int main(void){ memlock(); T0=now()+300*MS; pthread_t t[2]; pthread_create(t,0,second,0); pthread_create(t+1,0,first,0); for(int i=0;i<2;i++) pthread_join(t[i],0); return 0; }
