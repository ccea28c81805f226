// unmaps: FIFO-80 "control" (CPU 0) gives 64 MB of small pages back itself (munmap)
#include "markers.h"
enum{N=3};
int main(void){ who("control"); pin(0); fifo(80); ns_t T0=now()+400*MS; for(int i=0;i<N;i++){ size_t n=(i==2?64:1)<<20; char*b=mmap(0,n,PROT_READ|PROT_WRITE,MAP_PRIVATE|MAP_ANONYMOUS,-1,0); madvise(b,n,MADV_NOHUGEPAGE); memset(b,1,n); until(T0+i*100*MS); mark(600,i); munmap(b,n); mark(601,i);} return 0; }
