// rw_inode: FIFO-80 "control" (CPU 0) writes 1 byte to a file of tmpfs whose inode lock FIFO-40 "bulk" (CPU 1) holds in one write of 64 MB
#include "markers.h"
enum{N=3}; static ns_t T0; static int f; static char*buf; enum{B=96<<20};
static void*bulk(void*x){ who("bulk"); pin(1); fifo(40); until(T0+2*100*MS-1*MS); pwrite(f,buf,B,0); return 0; }
static void*control(void*x){ who("control"); pin(0); fifo(80); for(int i=0;i<N;i++){ until(T0+i*100*MS); mark(600,i); pwrite(f,"x",1,0); mark(601,i);} return 0; }
int main(void){ buf=malloc(B); memset(buf,1,B); f=open("/dev/shm/lh_c_big",O_RDWR|O_CREAT,0600); memlock(); T0=now()+300*MS; pthread_t t[2]; pthread_create(t,0,bulk,0); pthread_create(t+1,0,control,0); for(int i=0;i<2;i++) pthread_join(t[i],0); unlink("/dev/shm/lh_c_big"); return 0; }
