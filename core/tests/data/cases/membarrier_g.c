// membarrier: FIFO-80 "control" (CPU 0) calls membarrier(GLOBAL) = synchronize_rcu while "reader" (FIFO-70, CPU 1) computes 6 ms in user mode... and EXPEDITED for i==1
#include "markers.h"
#include <linux/membarrier.h>
enum{N=3}; static ns_t T0;
static void*reader(void*x){ who("reader"); pin(1); fifo(70); until(T0+2*100*MS-1*MS); spin_wall(20*MS); return 0; }
static void*control(void*x){ who("control"); pin(0); fifo(80); for(int i=0;i<N;i++){ until(T0+i*100*MS); mark(600,i); if(i==2) syscall(SYS_membarrier,MEMBARRIER_CMD_GLOBAL,0,0); mark(601,i);} return 0; }
int main(void){ memlock(); T0=now()+300*MS; pthread_t t[2]; pthread_create(t,0,reader,0); pthread_create(t+1,0,control,0); for(int i=0;i<2;i++) pthread_join(t[i],0); return 0; }
