// owner_dies: FIFO-80 "control" (CPU 0) waits for a robust mutex whose owner "mortal" (FIFO 50, CPU 1) ends after 4 ms with it
#include "markers.h"
static ns_t T0; static pthread_mutex_t m[3]; enum{N=3}; static int turn;
static void*mortal(void*x){ long i=(long)x; who("mortal"); pin(1); fifo(50); pthread_mutex_lock(&m[i]); __atomic_store_n(&turn,i+1,__ATOMIC_SEQ_CST); spin_cpu(i==2?4*MS:400*US); return 0; }
static void*control(void*x){ who("control"); pin(0); fifo(80); for(long i=0;i<N;i++){ until(T0+i*60*MS); pthread_t t; pthread_create(&t,0,mortal,(void*)i); while(__atomic_load_n(&turn,__ATOMIC_SEQ_CST)<=i) until(now()+50*US); mark(600,i); int r=pthread_mutex_lock(&m[i]); mark(601,i); if(r!=EOWNERDEAD) printf("r %d\n",r); pthread_join(t,0);} return 0; }
int main(void){ memlock(); pthread_mutexattr_t a; pthread_mutexattr_init(&a); pthread_mutexattr_setrobust(&a,PTHREAD_MUTEX_ROBUST); for(int i=0;i<N;i++) pthread_mutex_init(&m[i],&a); T0=now()+300*MS; pthread_t t; pthread_create(&t,0,control,0); pthread_join(t,0); return 0; }
