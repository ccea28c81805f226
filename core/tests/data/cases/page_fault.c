// pf: FIFO-80 "regler" touches a cold page of a mapped file between 600 and 601; "worker" (nice 19) computes beside it
#include "markers.h"
int main(void){ pin(1); int fd=open("pf.data",O_RDWR|O_CREAT,0600); static char b[1<<20]; memset(b,1,sizeof b); for(int i=0;i<8;i++) if(write(fd,b,sizeof b)<0) perror("w"); fsync(fd);
 volatile char*p=mmap(0,8<<20,PROT_READ,MAP_SHARED,fd,0); madvise((void*)p,8<<20,MADV_RANDOM);
 pid_t c=fork(); if(!c){ who("worker"); setpriority(PRIO_PROCESS,0,19); spin_wall(300*MS); _exit(0);} 
 who("regler"); fifo(80); posix_fadvise(fd,0,0,POSIX_FADV_DONTNEED); 
 for(int i=0;i<3;i++){ usleep(20000); if(i<2){volatile char x=p[4096*3]; (void)x;} mark(600,i); volatile char x=p[i==2?4096*777:4096*3]; (void)x; mark(601,i);} waitpid(c,0,0); return 0; }
