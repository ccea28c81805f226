// forklock: FIFO-80 "control" (CPU 0) calls mmap while FIFO-30 "forker" (CPU 1), a thread of the same process, forks with 300 MB of small pages (3rd) and holds the lock of the mappings
#include "markers.h"
enum{N=3}; static ns_t T0;
static void*forker(void*x){ who("forker"); pin(1); fifo(30); until(T0+2*100*MS-2*MS); pid_t c=fork(); if(!c) _exit(0); waitpid(c,0,0); return 0; }
int main(void){ size_t z=300u<<20; char*p=mmap(0,z,PROT_READ|PROT_WRITE,MAP_PRIVATE|MAP_ANONYMOUS,-1,0); madvise(p,z,MADV_NOHUGEPAGE); for(size_t k=0;k<z;k+=4096) p[k]=1; T0=now()+300*MS; pthread_t t; pthread_create(&t,0,forker,0); who("control"); pin(0); fifo(80); for(int i=0;i<N;i++){ until(T0+i*100*MS); mark(600,i); mmap(0,4096,PROT_READ,MAP_PRIVATE|MAP_ANONYMOUS,-1,0); mark(601,i);} pthread_join(t,0); return 0; }
