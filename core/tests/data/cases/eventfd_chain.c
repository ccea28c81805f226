// eventfd_chain: FIFO-80 "outer" (CPU 0) waits on an eventfd for FIFO-60 "middle" (CPU 1), which waits on one for FIFO-50 "inner" (CPU 1), which computes 4 ms the third time
#include "markers.h"
#include <sys/eventfd.h>
static int a,b; static ns_t T0; enum{N=3}; static void put(int f){ uint64_t v=1; if(write(f,&v,8)!=8) perror("w"); } static void get(int f){ uint64_t v; if(read(f,&v,8)!=8) perror("r"); }
static void*inner(void*x){ who("inner"); pin(1); fifo(50); for(int i=0;i<N;i++){ until(T0+i*60*MS+200*US); spin_cpu(i==2?4*MS:100*US); put(b);} return 0; }
static void*middle(void*x){ who("middle"); pin(1); fifo(60); for(int i=0;i<N;i++){ get(b); put(a);} return 0; }
static void*outer(void*x){ who("outer"); pin(0); fifo(80); for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); get(a); mark(601,i);} return 0; }
int main(void){ memlock(); a=eventfd(0,0); b=eventfd(0,0); T0=now()+300*MS; pthread_t t[3]; pthread_create(t,0,inner,0); pthread_create(t+1,0,middle,0); pthread_create(t+2,0,outer,0); for(int i=0;i<3;i++) pthread_join(t[i],0); return 0; }
