// printk_ipi: FIFO-80 "control" (CPU 0) unmaps memory; "logger" of its process (CPU 1) prints to the serial console with interrupts off, so the IPI waits
#include "markers.h"
enum{N=3}; static ns_t T0;
static void*logger(void*a){ (void)a; static char line[300]; memset(line,'x',299); memcpy(line,"<0>",3); line[299]='\n'; who("logger"); pin(1); int f=open("/dev/kmsg",O_WRONLY); for(int i=0;i<N;i++){ until(T0+i*100*MS-200*US); if(i==2) write(f,line,300); else spin_wall(400*US);} return 0; }
int main(void){ T0=now()+300*MS; char*p[N]; for(int i=0;i<N;i++){ p[i]=mmap(0,1<<20,PROT_READ|PROT_WRITE,MAP_PRIVATE|MAP_ANONYMOUS,-1,0); memset(p[i],1,1<<20);} pthread_t t; pthread_create(&t,0,logger,0);
 who("control"); pin(0); fifo(80); for(int i=0;i<N;i++){ until(T0+i*100*MS); mark(600,i); munmap(p[i],1<<20); mark(601,i);} pthread_join(t,0); return 0; }
