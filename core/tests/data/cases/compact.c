// compact: FIFO-80 "victim" (CPU 0) writes to /proc/sys/vm/compact_memory the third time: memory of the whole machine is compacted in its name
#include "markers.h"
enum{N=3};
int main(void){ who("victim"); pin(0); fifo(80); ns_t T0=now()+300*MS; for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); if(i==2){ int fd=open("/proc/sys/vm/compact_memory",O_WRONLY); if(write(fd,"1",1)!=1) perror("compact"); close(fd);} mark(601,i);} return 0; }
