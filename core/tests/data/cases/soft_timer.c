// soft_timer: FIFO-80 "axis" waits in sigwait for its own POSIX timer; FIFO-50 "bremser" computes 60 ms across the
// third expiry on the same CPU (1). On PREEMPT_RT such a timer expires in softirq HRTIMER, which ksoftirqd/1 (nice 0) does.
#include "markers.h"
static ns_t T0; enum{N=4};
static void*hog(void*x){ who("bremser"); pin(1); fifo(50); until(T0+2*200*MS+70*MS); spin_wall(60*MS); return 0; }
static void*victim(void*x){ who("axis"); pin(1); fifo(80); sigset_t s; sigemptyset(&s); sigaddset(&s,SIGUSR1); timer_t t;
 struct sigevent e={.sigev_notify=SIGEV_THREAD_ID,.sigev_signo=SIGUSR1}; e._sigev_un._tid=syscall(SYS_gettid);
 if(timer_create(CLOCK_MONOTONIC,&e,&t)) perror("timer_create");
 for(int i=0;i<N;i++){ ns_t r=T0+i*200*MS, d=r+100*MS; until(r); struct itimerspec p={.it_value={d/1000000000,d%1000000000}}; mark(600,i);
  timer_settime(t,TIMER_ABSTIME,&p,0); int g; sigwait(&s,&g); mark(601,i);} return 0; }
int main(void){ sigset_t s; sigemptyset(&s); sigaddset(&s,SIGUSR1); sigprocmask(SIG_BLOCK,&s,0); memlock(); pin(0); T0=now()+300*MS; pthread_t t[2];
 pthread_create(t,0,hog,0); pthread_create(t+1,0,victim,0); for(int i=0;i<2;i++) pthread_join(t[i],0); return 0; }
