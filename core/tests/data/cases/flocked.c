// flocked: FIFO-80 "locker" (CPU 0) wants the lock of a file that another process, "keeper" (CPU 1), holds while it computes 5 ms the third time
#include "markers.h"
#include <sys/file.h>
enum{N=3};
int main(void){ const char*f="/tmp/lathunt_flock"; ns_t T0=now()+300*MS; pid_t p=fork(); int fd=open(f,O_CREAT|O_RDWR,0600); if(!p){ who("keeper"); pin(1); fifo(50); for(int i=0;i<N;i++){ until(T0+i*60*MS-1*MS); flock(fd,LOCK_EX); until(T0+i*60*MS+100*US); spin_cpu(i==2?5*MS:100*US); flock(fd,LOCK_UN);} _exit(0);} who("locker"); pin(0); fifo(80); for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); flock(fd,LOCK_EX); mark(601,i); flock(fd,LOCK_UN);} waitpid(p,0,0); unlink(f); return 0; }
