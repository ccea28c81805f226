// fanotify: open of FIFO-80 "opener" (CPU 0) waits for the permission of "scanner" (CPU 1), which computes 4 ms first the third time
#include "markers.h"
#include <sys/fanotify.h>
enum{N=3};
int main(void){ const char*f="/tmp/lathunt_fan"; close(open(f,O_CREAT|O_RDWR,0600)); int fa=fanotify_init(FAN_CLASS_CONTENT,O_RDONLY); if(fa<0||fanotify_mark(fa,FAN_MARK_ADD,FAN_OPEN_PERM,AT_FDCWD,f)) perror("fanotify"); ns_t T0=now()+300*MS; pid_t p=fork(); if(!p){ who("opener"); pin(0); fifo(80); close(fa); for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); int fd=open(f,O_RDONLY); mark(601,i); close(fd);} _exit(0);} who("scanner"); pin(1); fifo(50); for(int i=0;i<N;i++){ struct fanotify_event_metadata e; if(read(fa,&e,sizeof e)<=0) perror("read"); spin_cpu(i==2?4*MS:100*US); struct fanotify_response r={.fd=e.fd,.response=FAN_ALLOW}; if(write(fa,&r,sizeof r)<0) perror("write"); close(e.fd);} waitpid(p,0,0); unlink(f); return 0; }
