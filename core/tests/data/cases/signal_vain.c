// signal_vain: FIFO-80 "control" (CPU 0) reads a pipe; FIFO-60 "noisy" (CPU 1) interrupts it 8 times with SIGUSR1 (handler, SA_RESTART), 500 us apart; FIFO-40 "giver" (CPU 1) computes 4.5 ms and writes
#include "markers.h"
enum{N=3}; static ns_t T0; static int p[2]; static pthread_t ct; static void h(int s){}
static void*noisy(void*x){ who("noisy"); pin(1); fifo(60); for(int k=0;k<8;k++){ until(T0+2*60*MS+(k+1)*500*US); pthread_kill(ct,SIGUSR1);} return 0; }
static void*giver(void*x){ who("giver"); pin(1); fifo(40); for(int i=0;i<N;i++){ until(T0+i*60*MS+200*US); spin_cpu(i==2?4500*US:100*US); write(p[1],"x",1);} return 0; }
static void*control(void*x){ who("control"); pin(0); fifo(80); char c; for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); while(read(p[0],&c,1)<0); mark(601,i);} return 0; }
int main(void){ struct sigaction a={.sa_handler=h,.sa_flags=SA_RESTART}; sigaction(SIGUSR1,&a,0); memlock(); pipe(p); T0=now()+300*MS; pthread_t t[2]; pthread_create(&ct,0,control,0); pthread_create(t,0,noisy,0); pthread_create(t+1,0,giver,0); pthread_join(ct,0); for(int i=0;i<2;i++) pthread_join(t[i],0); return 0; }
