// pip: FIFO-80 "servoctl" (CPU 0) waits for a PI mutex whose holder "paramstore" (FIFO 20, CPU 1) is preempted on CPU 1 by FIFO-90 "vision" inside the critical section
#include "markers.h"
static pthread_mutex_t mu; static ns_t T0; enum{N=3};
static void*holder(void*x){ who("paramstore"); pin(1); fifo(20);
 for(int i=0;i<N;i++){ until(T0+i*30*MS); pthread_mutex_lock(&mu); spin_cpu(3*MS); pthread_mutex_unlock(&mu);} until(T0+N*30*MS); return 0; }
static void*hog(void*x){ who("vision"); pin(1); fifo(90); until(T0+2*30*MS+2*MS); spin_wall(6*MS); until(T0+N*30*MS); return 0; }
static void*victim(void*x){ who("servoctl"); pin(0); fifo(80);
 for(int i=0;i<N;i++){ until(T0+i*30*MS+1*MS); mark(600,i); pthread_mutex_lock(&mu); mark(601,i); pthread_mutex_unlock(&mu);} return 0; }
int main(void){ memlock(); pthread_mutexattr_t a; pthread_mutexattr_init(&a); pthread_mutexattr_setprotocol(&a,PTHREAD_PRIO_INHERIT);
 pthread_mutex_init(&mu,&a); T0=now()+300*MS; pthread_t t[3];
 pthread_create(t,0,holder,0); pthread_create(t+1,0,hog,0); pthread_create(t+2,0,victim,0);
 for(int i=0;i<3;i++) pthread_join(t[i],0); return 0; }
