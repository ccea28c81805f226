// FIFO-80 "writer" writes to a file of a filesystem that "freezer" froze (FIFREEZE) and thaws after 6 ms
#include "markers.h"
#include <sys/ioctl.h>
#include <linux/fs.h>
static ns_t T0; enum{N=3};
int main(int n,char**v){ memlock(); int f=open(v[1],O_RDWR|O_CREAT,0644); T0=now()+300*MS; static char b[4096];
 pid_t k=fork(); if(!k){ who("freezer"); pin(1); fifo(50); for(int i=0;i<N;i++){ until(T0+i*60*MS-20*MS); if(ioctl(f,FIFREEZE,0)) perror("freeze"); until(T0+i*60*MS+6*MS); ioctl(f,FITHAW,0);} _exit(0);}
 who("writer"); pin(0); fifo(80); for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); pwrite(f,b,4096,0); mark(601,i);} waitpid(k,0,0); return 0; }
