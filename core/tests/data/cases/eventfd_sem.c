// eventfd_sem: FIFO-80 "control" and FIFO-85 "thief" (both CPU 0) wait for an eventfd of EFD_SEMAPHORE; FIFO-40 "giver" (CPU 1) gives one at 0.5 ms, which thief takes, and computes 4 ms (3rd) before it gives the next
#include "markers.h"
#include <sys/eventfd.h>
enum{N=3}; static ns_t T0; static int e; static void give(void){ uint64_t o=1; write(e,&o,8); }
static void*thief(void*x){ who("thief"); pin(0); fifo(85); until(T0+2*60*MS-1*MS); uint64_t v; read(e,&v,8); return 0; }
static void*giver(void*x){ who("giver"); pin(1); fifo(40); for(int i=0;i<N;i++){ until(T0+i*60*MS+500*US); if(i==2) give(); spin_cpu(i==2?4*MS:100*US); give(); } return 0; }
int main(void){ memlock(); e=eventfd(0,EFD_SEMAPHORE); T0=now()+300*MS; pthread_t t[2]; pthread_create(t,0,thief,0); pthread_create(t+1,0,giver,0); who("control"); pin(0); fifo(80); for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); uint64_t v; read(e,&v,8); mark(601,i);} for(int i=0;i<2;i++) pthread_join(t[i],0); return 0; }
