// ofdlock: FIFO-80 "control" (CPU 0) waits for a lock of an open file (F_OFD_SETLKW) that FIFO-30 "keeper" (CPU 1) holds; keeper is preempted by FIFO-50 "burst" for 4 ms (3rd)
#include "markers.h"
enum{N=3}; static ns_t T0; static const char*n="/tmp/lathunt_case"; static void lk(int f,int t){ struct flock l={.l_type=t,.l_whence=SEEK_SET}; if(fcntl(f,F_OFD_SETLKW,&l)) perror("lock"); }
static void*burst(void*x){ who("burst"); pin(1); fifo(50); until(T0+2*60*MS+300*US); spin_cpu(4*MS); return 0; }
static void*keeper(void*x){ who("keeper"); pin(1); fifo(30); int f=open(n,O_RDWR); for(int i=0;i<N;i++){ until(T0+i*60*MS-300*US); lk(f,F_WRLCK); spin_cpu(1*MS); lk(f,F_UNLCK);} return 0; }
int main(void){ memlock(); int f=open(n,O_RDWR|O_CREAT,0600); T0=now()+300*MS; pthread_t t[2]; pthread_create(t,0,keeper,0); pthread_create(t+1,0,burst,0); who("control"); pin(0); fifo(80); for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); lk(f,F_WRLCK); mark(601,i); lk(f,F_UNLCK);} for(int i=0;i<2;i++) pthread_join(t[i],0); unlink(n); return 0; }
