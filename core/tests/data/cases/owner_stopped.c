// owner_stopped: FIFO-80 "control" (CPU 0) waits for a shared mutex of another process "logger", which "admin" has stopped in its section for 8 ms
#include "markers.h"
static ns_t T0; enum{N=3};
int main(void){ pthread_mutex_t*m=mmap(0,4096,PROT_READ|PROT_WRITE,MAP_SHARED|MAP_ANONYMOUS,-1,0); pthread_mutexattr_t a; pthread_mutexattr_init(&a); pthread_mutexattr_setpshared(&a,1); pthread_mutex_init(m,&a); T0=now()+300*MS;
 pid_t l=fork(); if(!l){ who("logger"); pin(1); fifo(50); for(int i=0;i<N;i++){ until(T0+i*60*MS); pthread_mutex_lock(m); spin_cpu(1*MS); pthread_mutex_unlock(m);} _exit(0);} 
 pid_t ad=fork(); if(!ad){ who("admin"); pin(1); fifo(60); until(T0+120*MS+500*US); kill(l,SIGSTOP); until(T0+120*MS+8500*US); kill(l,SIGCONT); _exit(0);} 
 who("control"); pin(0); fifo(80); for(int i=0;i<N;i++){ until(T0+i*60*MS+300*US); mark(600,i); pthread_mutex_lock(m); mark(601,i); pthread_mutex_unlock(m);} wait(0); wait(0); return 0; }
