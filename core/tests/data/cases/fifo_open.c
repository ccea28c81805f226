// fifo_open: FIFO-80 "client" opens a named pipe for reading; it blocks until FIFO-50 "opener" (CPU 1) opens it for writing, after 5 ms of computing (3rd)
#include "markers.h"
#include <sys/stat.h>
enum{N=3}; static ns_t T0; static const char*P="/tmp/fifo_open.p";
static void*opener(void*x){ who("opener"); pin(1); fifo(50); for(int i=0;i<N;i++){ until(T0+i*60*MS+100*US); spin_cpu(i==2?5*MS:100*US); int f=open(P,O_WRONLY); usleep(5000); close(f);} return 0; }
static void*client(void*x){ who("client"); pin(0); fifo(80); for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); int f=open(P,O_RDONLY); mark(601,i); close(f);} return 0; }
int main(void){ memlock(); unlink(P); mkfifo(P,0600); T0=now()+300*MS; pthread_t t[2]; pthread_create(t,0,opener,0); pthread_create(t+1,0,client,0); for(int i=0;i<2;i++) pthread_join(t[i],0); unlink(P); return 0; }
