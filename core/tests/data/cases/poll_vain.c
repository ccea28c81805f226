// poll_vain: FIFO-80 "control" (CPU 0) polls two eventfds of which one is read away by thread "thief" (FIFO-90, CPU 0) each time that FIFO-60 "noisy" (CPU 1) writes it: woken in vain; FIFO-40 "giver" (CPU 1) computes 4.5 ms, then writes the other
#include "markers.h"
#include <poll.h>
#include <sys/eventfd.h>
enum{N=3}; static ns_t T0; static int e,g; static volatile int over;
static void*thief(void*x){ who("thief"); pin(0); fifo(90); uint64_t v; while(!over){ read(e,&v,8);} return 0; }
static void*noisy(void*x){ who("noisy"); pin(1); fifo(60); uint64_t v=1; for(int k=0;k<8;k++){ until(T0+2*60*MS+(k+1)*500*US); write(e,&v,8);} return 0; }
static void*giver(void*x){ who("giver"); pin(1); fifo(40); uint64_t v=1; for(int i=0;i<N;i++){ until(T0+i*60*MS+200*US); spin_cpu(i==2?4500*US:100*US); write(g,&v,8);} return 0; }
static void*control(void*x){ who("control"); pin(0); fifo(80); uint64_t v; for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); struct pollfd q[2]={{e,POLLIN,0},{g,POLLIN,0}}; do poll(q,2,1000); while(!(q[1].revents&POLLIN)); mark(601,i); read(g,&v,8);} return 0; }
int main(void){ memlock(); e=eventfd(0,0); g=eventfd(0,0); T0=now()+300*MS; pthread_t t[4]; pthread_create(t,0,thief,0); pthread_create(t+1,0,noisy,0); pthread_create(t+2,0,giver,0); pthread_create(t+3,0,control,0); for(int i=1;i<4;i++) pthread_join(t[i],0); over=1; uint64_t v=1; write(e,&v,8); pthread_join(t[0],0); return 0; }
