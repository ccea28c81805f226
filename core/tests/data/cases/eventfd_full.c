// eventfd_full: FIFO-80 "control" (CPU 0) adds to an eventfd whose counter is full; FIFO-40 "drain" (CPU 1), which would read it after 1 ms, waits behind FIFO-60 "hog" for 4 ms
#include "markers.h"
#include <sys/eventfd.h>
enum{N=3}; static ns_t T0; static int e;
static void*hog(void*x){ who("hog"); pin(1); fifo(60); for(int i=0;i<N;i++){ until(T0+i*60*MS+500*US); spin_wall(i==2?5*MS:20*US);} return 0; }
static void*drain(void*x){ uint64_t v; who("drain"); pin(1); fifo(40); for(int i=0;i<N;i++){ until(T0+i*60*MS+1*MS); if(read(e,&v,8)!=8) perror("read"); } return 0; }
int main(void){ memlock(); e=eventfd(0,0); uint64_t full=UINT64_MAX-1,one=1; T0=now()+300*MS; pthread_t t[2]; pthread_create(t,0,hog,0); pthread_create(t+1,0,drain,0); who("control"); pin(0); fifo(80); for(int i=0;i<N;i++){ until(T0+i*60*MS-5*MS); if(i) {uint64_t v; read(e,&v,8);} if(write(e,&full,8)!=8) perror("full"); until(T0+i*60*MS); mark(600,i); if(write(e,&one,8)!=8) perror("one"); mark(601,i);} for(int i=0;i<2;i++) pthread_join(t[i],0); return 0; }
