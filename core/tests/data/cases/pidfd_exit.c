// pidfd_exit: FIFO-80 "watcher" (CPU 0) polls a pidfd of a process that computes 4 ms on CPU 1 before it exits, the third time
#include "markers.h"
#include <poll.h>
enum{N=3};
int main(void){ who("watcher"); pin(0); fifo(80); ns_t T0=now()+300*MS; for(int i=0;i<N;i++){ pid_t p=fork(); if(!p){ name("worker"); pin(1); fifo(50); until(T0+i*60*MS+100*US); spin_cpu(i==2?4*MS:100*US); _exit(0);} int fd=syscall(SYS_pidfd_open,p,0); until(T0+i*60*MS); mark(600,i); struct pollfd d={fd,POLLIN,0}; poll(&d,1,-1); mark(601,i); close(fd); waitpid(p,0,0);} return 0; }
