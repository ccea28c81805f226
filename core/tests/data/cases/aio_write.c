// aio_write: FIFO-80 "control" (CPU 0) writes a file with kernel AIO and O_DIRECT: io_submit of 4 kB, 4 kB, then 8 MB, and waits in io_getevents
#include "markers.h"
#include <linux/aio_abi.h>
enum{N=3}; static char b[8<<20] __attribute__((aligned(4096)));
int main(void){ const char*n="/var/tmp/lathunt_case"; int f=open(n,O_RDWR|O_CREAT|O_TRUNC,0600); memset(b,1,sizeof b); if(write(f,b,sizeof b)<0) perror("write"); fsync(f); close(f); f=open(n,O_WRONLY|O_DIRECT); if(f<0) perror(n); memlock(); aio_context_t x=0; if(syscall(SYS_io_setup,8,&x)) perror("setup"); who("control"); pin(0); fifo(80); ns_t T0=now()+300*MS; for(int i=0;i<N;i++){ struct iocb c={.aio_lio_opcode=IOCB_CMD_PWRITE,.aio_fildes=f,.aio_buf=(uintptr_t)b,.aio_nbytes=i==2?sizeof b:4096},*p=&c; struct io_event e; until(T0+i*100*MS); mark(600,i); if(syscall(SYS_io_submit,x,1,&p)!=1) perror("submit"); if(syscall(SYS_io_getevents,x,1,1,&e,0)!=1) perror("getevents"); mark(601,i);} unlink(n); return 0; }
