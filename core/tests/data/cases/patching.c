// patching: FIFO-80 "control" (CPU 0) computes 1 ms while FIFO-60 "tuner" (CPU 1) patches the kernel's text 40 times (a static key): an IPI to all CPUs for each step
#include "markers.h"
static ns_t T0; enum{N=3};
static void*tuner(void*x){ who("tuner"); pin(1); fifo(60); int f=open("/sys/kernel/tracing/instances/m31/events/sched/sched_process_hang/enable",O_WRONLY); for(int i=0;i<N;i++){ until(T0+i*80*MS+100*US); if(i==2) for(int k=0;k<20;k++){ if(pwrite(f,"1",1,0)<0||pwrite(f,"0",1,0)<0) perror("w"); } } return 0; }
static void*control(void*x){ who("control"); pin(0); fifo(80); for(int i=0;i<N;i++){ until(T0+i*80*MS); mark(600,i); spin_cpu(2*MS); mark(601,i);} return 0; }
int main(void){ memlock(); T0=now()+300*MS; pthread_t t[2]; pthread_create(t,0,tuner,0); pthread_create(t+1,0,control,0); for(int i=0;i<2;i++) pthread_join(t[i],0); return 0; }
