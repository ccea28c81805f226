// lowered: FIFO-60 "victim" wakes behind FIFO-70 "hog" (CPU 1); meanwhile "operator" gives it FIFO 10, so that FIFO-30 "hog2"
// is next
#include "markers.h"
static ns_t T0; static volatile int vt;
static void*hog(void*x){ who("hog"); pin(1); fifo(70); until(T0); spin_wall(6*MS); return 0;}
static void*h2(void*x){ who("hog2"); pin(1); fifo(30); until(T0+1*MS); spin_wall(6*MS); return 0;}
static void*victim(void*x){ who("victim"); vt=syscall(SYS_gettid); pin(1); fifo(60); until(T0-2*MS); mark(600,1); until(T0+2*MS); mark(601,1); return 0;}
int main(){ memlock(); pin(0); T0=now()+400*MS; pthread_t t[3]; pthread_create(t,0,hog,0); pthread_create(t+1,0,h2,0); pthread_create(t+2,0,victim,0); fifo(90); name("operator"); until(T0+4*MS); struct sched_param sp={.sched_priority=10}; sched_setscheduler(vt,SCHED_FIFO,&sp); for(int i=0;i<3;i++) pthread_join(t[i],0); return 0;}
