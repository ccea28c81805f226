// loop_cached: FIFO-80 "control" (CPU 0) writes 2 MB to a loop device and syncs it
#include "markers.h"
enum{N=3,L=2<<20}; static ns_t T0; static char buf[L];
int main(int c,char**v){ (void)c; memlock(); T0=now()+300*MS; int f=open(v[1],O_RDWR); if(f<0) perror("open");
 who("control"); pin(0); fifo(80); for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); if(i==2){ pwrite(f,buf,L,0); fdatasync(f);} mark(601,i);} return 0; }
