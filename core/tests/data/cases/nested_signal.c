// nested_signal: FIFO-80 "control" (CPU 0) waits in read; "killer" sends SIGUSR1 whose handler computes 2 ms and longjmps out; control then waits in read of the same pipe again until "giver" writes (6 ms)
#include "markers.h"
#include <setjmp.h>
enum{N=3}; static ns_t T0; static int p[2]; static pthread_t me; static sigjmp_buf j; static volatile int in;
static void h(int s){ spin_cpu(2*MS); if(in) siglongjmp(j,1); }
static void*killer(void*x){ who("killer"); pin(1); fifo(60); until(T0+2*60*MS+1*MS); pthread_kill(me,SIGUSR1); return 0; }
static void*giver(void*x){ who("giver"); pin(1); fifo(40); for(int i=0;i<N;i++){ until(T0+i*60*MS+200*US); spin_cpu(i==2?6*MS:100*US); write(p[1],"x",1);} return 0; }
int main(void){ struct sigaction a={.sa_handler=h}; sigaction(SIGUSR1,&a,0); me=pthread_self(); memlock(); pipe(p); T0=now()+300*MS; pthread_t t[2]; pthread_create(t,0,killer,0); pthread_create(t+1,0,giver,0); who("control"); pin(0); fifo(80); char c; for(volatile int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); sigsetjmp(j,1); in=1; read(p[0],&c,1); in=0; mark(601,i);} for(int i=0;i<2;i++) pthread_join(t[i],0); return 0; }
