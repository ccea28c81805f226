// inotify: FIFO-80 "control" (CPU 0) polls an inotify descriptor; process "writer" (CPU 1, FIFO-30) is woken by a timerfd, computes 4 ms, then closes a file it wrote
#include "markers.h"
#include <sys/inotify.h>
#include <poll.h>
enum{N=3}; static ns_t T0;
int main(void){ memlock(); T0=now()+300*MS; int in=inotify_init1(0); int f0=open("/dev/shm/lh_c_in",O_RDWR|O_CREAT,0600); close(f0); inotify_add_watch(in,"/dev/shm/lh_c_in",IN_CLOSE_WRITE);
 pid_t p=fork(); if(!p){ who("writer"); pin(1); fifo(30); for(int i=0;i<N;i++){ until(T0+i*60*MS+200*US); spin_cpu(i==2?4*MS:200*US); int f=open("/dev/shm/lh_c_in",O_WRONLY); write(f,"x",1); close(f);} _exit(0);}
 who("control"); pin(0); fifo(80); char b[4096]; for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); struct pollfd q={in,POLLIN,0}; poll(&q,1,1000); mark(601,i); read(in,b,sizeof b);} waitpid(p,0,0); unlink("/dev/shm/lh_c_in"); return 0; }
