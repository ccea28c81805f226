// odirect: FIFO-80 "control" (CPU 0) reads a file with O_DIRECT (pread): 4 kB, 4 kB, then 8 MB, for which the device has no room at once
#include "markers.h"
enum{N=3}; static char b[8<<20] __attribute__((aligned(4096)));
int main(void){ const char*n="/var/tmp/lathunt_case"; int f=open(n,O_RDWR|O_CREAT|O_TRUNC,0600); memset(b,1,sizeof b); write(f,b,sizeof b); fsync(f); close(f); f=open(n,O_RDONLY|O_DIRECT); if(f<0) perror(n); memlock(); who("control"); pin(0); fifo(80); ns_t T0=now()+300*MS; for(int i=0;i<N;i++){ until(T0+i*100*MS); mark(600,i); if(pread(f,b,i==2?sizeof b:4096,0)<=0) perror("pread"); mark(601,i);} unlink(n); return 0; }
