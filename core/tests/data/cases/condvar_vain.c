// condvar_vain: FIFO-80 "control" (CPU 0) waits for a flag under a condition variable; FIFO-60 "noisy" (CPU 1) wakes it 8 times without the flag (500 us apart), FIFO-40 "giver" (CPU 1) computes 4 ms, then sets the flag and wakes it
#include "markers.h"
enum{N=3}; static ns_t T0; static pthread_mutex_t m=PTHREAD_MUTEX_INITIALIZER; static pthread_cond_t c=PTHREAD_COND_INITIALIZER; static int flag;
static void*noisy(void*x){ who("noisy"); pin(1); fifo(60); for(int k=0;k<8;k++){ until(T0+2*60*MS+(k+1)*500*US); pthread_cond_broadcast(&c);} return 0; }
static void*giver(void*x){ who("giver"); pin(1); fifo(40); for(int i=0;i<N;i++){ until(T0+i*60*MS+200*US); spin_cpu(i==2?4500*US:100*US); pthread_mutex_lock(&m); flag=i+1; pthread_cond_signal(&c); pthread_mutex_unlock(&m);} return 0; }
static void*control(void*x){ who("control"); pin(0); fifo(80); for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); pthread_mutex_lock(&m); while(flag<=i) pthread_cond_wait(&c,&m); pthread_mutex_unlock(&m); mark(601,i);} return 0; }
int main(void){ memlock(); T0=now()+300*MS; pthread_t t[3]; pthread_create(t,0,noisy,0); pthread_create(t+1,0,giver,0); pthread_create(t+2,0,control,0); for(int i=0;i<3;i++) pthread_join(t[i],0); return 0; }
