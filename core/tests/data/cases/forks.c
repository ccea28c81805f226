// forks: FIFO-80 "control" (CPU 0) with 64 MB forks itself
#include "markers.h"
enum{N=3};
int main(void){ who("control"); pin(0); fifo(80); size_t n=64<<20; char*b=mmap(0,n,PROT_READ|PROT_WRITE,MAP_PRIVATE|MAP_ANONYMOUS,-1,0); madvise(b,n,MADV_NOHUGEPAGE); ns_t T0=now()+400*MS; for(int i=0;i<N;i++){ if(i==2) memset(b,1,n); until(T0+i*100*MS); mark(600,i); pid_t c=fork(); if(!c){ struct sched_param z={0}; sched_setscheduler(0,SCHED_OTHER,&z); _exit(0);} mark(601,i); waitpid(c,0,0);} return 0; }
