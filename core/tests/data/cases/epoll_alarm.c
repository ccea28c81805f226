// epoll_alarm: FIFO-80 "control" (CPU 0) waits in epoll_wait for a pipe, in which the timer of its process (setitimer, 500 us) interrupts it with SIGALRM; FIFO-40 "giver" (CPU 1) computes 4 ms (3rd) and writes
#include "markers.h"
#include <sys/epoll.h>
#include <sys/time.h>
enum{N=3}; static ns_t T0; static int p[2]; static volatile int n; static void h(int s){ n++; }
static void*giver(void*x){ sigset_t s; sigemptyset(&s); sigaddset(&s,SIGALRM); pthread_sigmask(SIG_BLOCK,&s,0); who("giver"); pin(1); fifo(40); for(int i=0;i<N;i++){ until(T0+i*60*MS+200*US); spin_cpu(i==2?4*MS:100*US); write(p[1],"x",1);} return 0; }
int main(void){ struct sigaction a={.sa_handler=h}; sigaction(SIGALRM,&a,0); memlock(); pipe(p); T0=now()+300*MS; pthread_t t; pthread_create(&t,0,giver,0); who("control"); pin(0); fifo(80); int e=epoll_create1(0); struct epoll_event v={.events=EPOLLIN}; epoll_ctl(e,EPOLL_CTL_ADD,p[0],&v);
 for(int i=0;i<N;i++){ until(T0+i*60*MS-5*MS); if(i==2){ struct itimerval w={{0,500},{0,500}}; setitimer(ITIMER_REAL,&w,0); } until(T0+i*60*MS); mark(600,i); while(epoll_wait(e,&v,1,-1)<0); mark(601,i); char c; read(p[0],&c,1);} struct itimerval z={0}; setitimer(ITIMER_REAL,&z,0); pthread_join(t,0); return 0; }
