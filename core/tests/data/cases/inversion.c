// inv: like futex_pi but a plain mutex, owner preempted by FIFO-50 "vision": unbounded inversion
#include "markers.h"
static pthread_mutex_t mu=PTHREAD_MUTEX_INITIALIZER; static ns_t T0; enum{N=3};
static void*holder(void*x){ who("paramstore"); pin(0);
 for(int i=0;i<N;i++){ until(T0+i*60*MS); pthread_mutex_lock(&mu); spin_cpu(i==2?4*MS:300*US); pthread_mutex_unlock(&mu);} until(T0+N*60*MS); return 0; }
static void*hog(void*x){ who("vision"); pin(0); fifo(50); until(T0+2*60*MS+1*MS); spin_wall(20*MS); until(T0+N*60*MS); return 0; }
static void*victim(void*x){ who("servoctl"); pin(0); fifo(80);
 for(int i=0;i<N;i++){ until(T0+i*60*MS+3*MS); mark(600,i); pthread_mutex_lock(&mu); mark(601,i); pthread_mutex_unlock(&mu);} return 0; }
int main(void){ memlock(); pin(1); T0=now()+300*MS; pthread_t t[3];
 pthread_create(t,0,holder,0); pthread_create(t+1,0,hog,0); pthread_create(t+2,0,victim,0);
 for(int i=0;i<3;i++) pthread_join(t[i],0); return 0; }
