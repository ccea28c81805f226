// pi_owner_dies: FIFO-80 "control" (CPU 0) waits for a robust mutex with inheritance; its owner "shortlived" (ordinary, CPU 1) computes 4 ms and ends without releasing it; boosted, it is before FIFO-70 "hogger"
#include "markers.h"
enum{N=3}; static ns_t T0; static pthread_mutex_t m[N];
static void*owner(void*x){ long i=(long)x; who("shortlived"); pin(1); until(T0+i*60*MS-1*MS); pthread_mutex_lock(m+i); until(T0+i*60*MS+500*US); spin_cpu(i==2?4*MS:100*US); return 0; }
static void*hogger(void*x){ who("hogger"); pin(1); fifo(70); until(T0+2*60*MS+900*US); spin_cpu(6*MS); return 0; }
static void*control(void*x){ who("control"); pin(0); fifo(80); for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); if(pthread_mutex_lock(m+i)==EOWNERDEAD) pthread_mutex_consistent(m+i); mark(601,i); pthread_mutex_unlock(m+i);} return 0; }
int main(void){ memlock(); pthread_mutexattr_t a; pthread_mutexattr_init(&a); pthread_mutexattr_setprotocol(&a,PTHREAD_PRIO_INHERIT); pthread_mutexattr_setrobust(&a,PTHREAD_MUTEX_ROBUST); for(int i=0;i<N;i++) pthread_mutex_init(m+i,&a); T0=now()+300*MS; pthread_t t[N+2]; for(long i=0;i<N;i++) pthread_create(t+i,0,owner,(void*)i); pthread_create(t+N,0,hogger,0); pthread_create(t+N+1,0,control,0); for(int i=0;i<N+2;i++) pthread_join(t[i],0); return 0; }
