// yields: FIFO-80 "control" calls sched_yield once; FIFO-80 "twin", which waits on the same CPU, then computes 5 ms
#include "markers.h"
enum{N=3}; static ns_t T0;
static void*twin(void*x){ who("twin"); pin(1); fifo(80); for(int i=0;i<N;i++){ until(T0+i*60*MS+500*US); spin_cpu(i==2?5*MS:100*US);} return 0; }
static void*control(void*x){ who("control"); pin(1); fifo(80); for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); spin_cpu(1*MS); sched_yield(); spin_cpu(200*US); mark(601,i);} return 0; }
int main(void){ memlock(); T0=now()+300*MS; pthread_t t[2]; pthread_create(t,0,twin,0); pthread_create(t+1,0,control,0); for(int i=0;i<2;i++) pthread_join(t[i],0); return 0; }
