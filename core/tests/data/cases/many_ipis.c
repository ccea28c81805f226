// many_ipis: "victim" (CPU 1) needs 5 ms of CPU time; in the last three passages "admin" (CPU 0) moves the thread "busy" to CPU 0 and
// back as fast as it can, and kicks CPU 1 with a reschedule interrupt each time
#include "markers.h"
static ns_t T0; static volatile int stop; static pid_t busy;
static void*bz(void*x){ busy=syscall(SYS_gettid); who("busy"); while(!stop); return 0;}
static void*adm(void*x){ who("admin"); pin(0); until(T0+50*MS); cpu_set_t a,b; CPU_ZERO(&a); CPU_SET(0,&a); CPU_ZERO(&b); CPU_SET(1,&b); while(!stop){ sched_setaffinity(busy,sizeof a,&a); sched_setaffinity(busy,sizeof b,&b);} return 0;}
static void*vic(void*x){ who("victim"); pin(1); for(int i=0;i<5;i++){ until(T0+i*50*MS); mark(600,i); spin_cpu(5*MS); mark(601,i);} stop=1; return 0;}
int main(void){ memlock(); T0=now()+300*MS; pthread_t t[3]; pthread_create(t,0,bz,0); usleep(50000); pthread_create(t+1,0,adm,0); pthread_create(t+2,0,vic,0); for(int i=0;i<3;i++) pthread_join(t[i],0); return 0; }
