// kernel_lock: FIFO-80 "servoctl" (CPU 0) writes a byte into a file in memory while "dumper" (nice 0, CPU 1) writes 64 MB into it
// with one call, holding the kernel's lock of the inode; FIFO-50 "vision" computes 12 ms on CPU 1 in the middle
#include "markers.h"
static ns_t T0; static int fd; static char b[64<<20]; enum{N=3};
static void*holder(void*x){ who("dumper"); pin(1); for(int i=0;i<N;i++){ until(T0+i*100*MS); if(pwrite(fd,b,i==2?sizeof b:1<<20,0)<0) perror("w"); } return 0; }
static void*hog(void*x){ who("vision"); pin(1); fifo(50); until(T0+200*MS+4*MS); spin_wall(12*MS); return 0; }
static void*victim(void*x){ who("servoctl"); pin(0); fifo(80); char c=1; for(int i=0;i<N;i++){ until(T0+i*100*MS+2*MS); mark(600,i); if(pwrite(fd,&c,1,0)<0) perror("w"); mark(601,i);} return 0; }
int main(void){ memlock(); fd=memfd_create("dump",0); memset(b,1,sizeof b); T0=now()+300*MS; pthread_t t[3]; pthread_create(t,0,holder,0); pthread_create(t+1,0,hog,0); pthread_create(t+2,0,victim,0); for(int i=0;i<3;i++) pthread_join(t[i],0); return 0; }
