// membarrier_p: FIFO-80 "control" (CPU 0) calls membarrier (private, expedited); "logger" of its process (CPU 1) prints to the serial console with interrupts off
#include "markers.h"
#include <linux/membarrier.h>
enum{N=3}; static ns_t T0;
static void*logger(void*a){ (void)a; static char line[200]; memset(line,'x',199); memcpy(line,"<0>",3); line[199]='\n'; who("logger"); pin(1); int f=open("/dev/kmsg",O_WRONLY); for(int i=0;i<N;i++){ until(T0+i*100*MS-200*US); if(i==2) write(f,line,200); else spin_wall(400*US);} return 0; }
int main(void){ memlock(); T0=now()+300*MS; syscall(SYS_membarrier,MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED,0,0); pthread_t t; pthread_create(&t,0,logger,0);
 who("control"); pin(0); fifo(80); for(int i=0;i<N;i++){ until(T0+i*100*MS); mark(600,i); syscall(SYS_membarrier,MEMBARRIER_CMD_PRIVATE_EXPEDITED,0,0); mark(601,i);} pthread_join(t,0); return 0; }
