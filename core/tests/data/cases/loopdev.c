// loopdev: FIFO-80 "control" (CPU 0) reads directly from a loop device, whose worker reads the file from the disk
#include "markers.h"
enum{N=3};
int main(int c,char**v){ who("control"); pin(0); fifo(80); int fd=open(v[1],O_RDONLY|O_DIRECT); if(fd<0) perror("open"); void*b; if(posix_memalign(&b,4096,1<<20)) return 1; memset(b,0,1<<20); ns_t T0=now()+200*MS; for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); if(pread(fd,b,i==2?512*1024:4096,i*(1<<20))<0) perror("pread"); mark(601,i);} return 0; }
