// sig: FIFO-80 "waiter" waits in sigwait; "kicker" (FIFO 30, CPU 1) computes 3 ms, preempted 4 ms by "lidar" in round 2, then tgkill
#include "markers.h"
static ns_t T0; static pid_t wt;
static void*w(void*x){ who("waiter"); wt=syscall(SYS_gettid); pin(0); fifo(80); sigset_t s; sigemptyset(&s); sigaddset(&s,SIGUSR1); for(int i=0;i<3;i++){ int g; sigwait(&s,&g); mark(601,i);} return 0;}
static void*k(void*x){ who("kicker"); pin(1); fifo(30); for(int i=0;i<3;i++){ until(T0+i*30*MS); mark(600,i); spin_cpu(3*MS); syscall(SYS_tgkill,getpid(),wt,SIGUSR1);} return 0;}
static void*l(void*x){ who("lidar"); pin(1); fifo(50); until(T0+61*MS); spin_wall(4*MS); return 0;}
int main(void){ sigset_t s; sigemptyset(&s); sigaddset(&s,SIGUSR1); sigprocmask(SIG_BLOCK,&s,0); memlock(); T0=now()+300*MS; pthread_t t[3]; pthread_create(t,0,w,0); usleep(5000); pthread_create(t+1,0,k,0); pthread_create(t+2,0,l,0); for(int i=0;i<3;i++) pthread_join(t[i],0); return 0; }
