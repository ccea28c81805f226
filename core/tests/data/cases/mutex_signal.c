// mutex_signal: FIFO-80 "control" (CPU 0) waits for a plain mutex that FIFO-40 "holder" (CPU 1) holds while it computes 4 ms (3rd); FIFO-60 "noisy" (CPU 1) interrupts control 6 times with SIGUSR1 (handler of 200 us, SA_RESTART)
#include "markers.h"
enum{N=3}; static ns_t T0; static pthread_mutex_t m=PTHREAD_MUTEX_INITIALIZER; static pthread_t ct; static void h(int s){ spin_wall(200*US); }
static void*noisy(void*x){ who("noisy"); pin(1); fifo(60); for(int k=0;k<6;k++){ until(T0+2*60*MS+(k+1)*600*US); pthread_kill(ct,SIGUSR1);} return 0; }
static void*holder(void*x){ who("holder"); pin(1); fifo(40); for(int i=0;i<N;i++){ until(T0+i*60*MS-500*US); pthread_mutex_lock(&m); spin_cpu(i==2?4500*US:700*US); pthread_mutex_unlock(&m);} return 0; }
static void*control(void*x){ who("control"); pin(0); fifo(80); for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); pthread_mutex_lock(&m); mark(601,i); pthread_mutex_unlock(&m);} return 0; }
int main(void){ struct sigaction a={.sa_handler=h,.sa_flags=SA_RESTART}; sigaction(SIGUSR1,&a,0); memlock(); T0=now()+300*MS; pthread_t t[2]; pthread_create(&ct,0,control,0); pthread_create(t,0,noisy,0); pthread_create(t+1,0,holder,0); pthread_join(ct,0); for(int i=0;i<2;i++) pthread_join(t[i],0); return 0; }
