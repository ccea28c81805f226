// pi_chain: FIFO-80 "high" waits for a PI mutex of FIFO-20 "mid", which waits for one of FIFO-10 "low" (CPU 0); that is preempted
// there by FIFO-50 "hog" until "high" lends its priority through both
#include "markers.h"
static pthread_mutex_t m1,m2; static ns_t T0;
static void*low(void*x){ who("low"); pin(0); fifo(10); until(T0); pthread_mutex_lock(&m2); spin_cpu(8*MS); pthread_mutex_unlock(&m2); return 0;}
static void*mid(void*x){ who("mid"); pin(1); fifo(20); until(T0+1*MS); pthread_mutex_lock(&m1); pthread_mutex_lock(&m2); spin_cpu(1*MS); pthread_mutex_unlock(&m2); pthread_mutex_unlock(&m1); return 0;}
static void*hog(void*x){ who("hog"); pin(0); fifo(50); until(T0+2*MS); spin_wall(10*MS); return 0;}
static void*high(void*x){ who("high"); pin(1); fifo(80); until(T0+5*MS); mark(600,1); pthread_mutex_lock(&m1); mark(601,1); pthread_mutex_unlock(&m1); return 0;}
int main(){ memlock(); pthread_mutexattr_t a; pthread_mutexattr_init(&a); pthread_mutexattr_setprotocol(&a,PTHREAD_PRIO_INHERIT); pthread_mutex_init(&m1,&a); pthread_mutex_init(&m2,&a); pin(1); T0=now()+400*MS; pthread_t t[4];
 pthread_create(t+1,0,mid,0); pthread_create(t+2,0,hog,0); pthread_create(t+3,0,high,0); pthread_create(t,0,low,0); for(int i=0;i<4;i++) pthread_join(t[i],0); return 0;}
