// sigflood: FIFO-80 "control" (CPU 0) computes 1 ms and is sent 60 real-time signals by "flooder" (FIFO 60, CPU 1) with a handler of 50 us
#include "markers.h"
static ns_t T0; enum{N=3}; static volatile int tid; static void on(int s){ ns_t e=now()+50*US; while(now()<e); }
static void*flooder(void*x){ who("flooder"); pin(1); fifo(60); for(int i=0;i<N;i++){ until(T0+i*60*MS+100*US); if(i==2) for(int k=0;k<60;k++){ union sigval v={0}; sigqueue(getpid(),SIGRTMIN,v);} } return 0; }
static void*control(void*x){ sigset_t s; sigemptyset(&s); sigaddset(&s,SIGRTMIN); pthread_sigmask(SIG_UNBLOCK,&s,0); who("control"); pin(0); fifo(80); for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); spin_cpu(1*MS); mark(601,i);} return 0; }
int main(void){ memlock(); signal(SIGRTMIN,on); sigset_t s; sigemptyset(&s); sigaddset(&s,SIGRTMIN); pthread_sigmask(SIG_BLOCK,&s,0); T0=now()+300*MS; pthread_t t[2]; pthread_create(t,0,flooder,0); pthread_create(t+1,0,control,0); for(int i=0;i<2;i++) pthread_join(t[i],0); return 0; }
