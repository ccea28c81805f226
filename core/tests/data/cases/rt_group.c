// rt_group: FIFO-80 "control" (CPU 0) computes 9 ms in a cgroup whose real-time threads have 6 ms of each 100 ms
#include "markers.h"
enum{N=3}; static ns_t T0;
int main(int c,char**v){ (void)c; memlock(); T0=now()+300*MS; int g=open(v[1],O_WRONLY); if(g<0) perror(v[1]); if(dprintf(g,"0")<0) perror("procs"); close(g);
 who("control"); pin(0); fifo(80); for(int i=0;i<N;i++){ until(T0+i*230*MS); mark(600,i); spin_cpu(i==2?9*MS:200*US); mark(601,i);} return 0; }
