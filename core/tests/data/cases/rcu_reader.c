// rcu_reader: FIFO-80 "config" (CPU 0) waits for a grace period of RCU (membarrier); "lookup" (nice 0, CPU 1) walks a long path, which is one
// read section, and FIFO-50 "bremser" preempts it there for 700 ms
#include "markers.h"
#include <sys/stat.h>
static volatile int stop; static ns_t T0;
static void*rd(void*x){ who("lookup"); pin(1); static char p[4000]; for(int i=0;i<1900;i++) strcat(p,"/."); struct stat s; while(!stop) stat(p,&s); return 0;}
static void*hog(void*x){ who("bremser"); pin(1); fifo(50); until(T0+200*MS); spin_wall(700*MS); return 0;}
int main(void){ memlock(); T0=now()+300*MS; pthread_t t[2]; pthread_create(t,0,rd,0); pthread_create(t+1,0,hog,0); who("config"); pin(0); fifo(80);
 for(int i=0;i<2;i++){ until(T0+i*250*MS); mark(600,i); if(i==1&&syscall(SYS_membarrier,1,0,0)) perror("membarrier"); mark(601,i);} stop=1; for(int i=0;i<2;i++) pthread_join(t[i],0); return 0; }
