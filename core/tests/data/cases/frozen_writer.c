// FIFO-80 "client" reads a pipe; process "server" (CPU 1) would compute 2 ms and write, but "icer" freezes its cgroup for 6 ms after 1 ms
#include "markers.h"
#include <sys/stat.h>
static ns_t T0; enum{N=3}; static int p[2];
static void put(const char*f,const char*v){ int d=open(f,O_WRONLY); if(d<0||write(d,v,strlen(v))<0) perror(f); close(d); }
int main(void){ memlock(); pipe(p); T0=now()+400*MS; pid_t k[2]; char c; mkdir("/sys/fs/cgroup/unified/writer",0755);
 if(!(k[0]=fork())){ char n[20]; sprintf(n,"%d",getpid()); put("/sys/fs/cgroup/unified/writer/cgroup.procs",n); who("server"); pin(1); fifo(50); for(int i=0;i<N;i++){ until(T0+i*60*MS+200*US); spin_cpu(2*MS); write(p[1],"x",1);} _exit(0);}
 if(!(k[1]=fork())){ who("icer"); pin(0); fifo(60); for(int i=0;i<N;i++){ until(T0+i*60*MS+1*MS); put("/sys/fs/cgroup/unified/writer/cgroup.freeze","1"); until(T0+i*60*MS+7*MS); put("/sys/fs/cgroup/unified/writer/cgroup.freeze","0");} _exit(0);}
 who("client"); pin(0); fifo(80); for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); read(p[0],&c,1); mark(601,i);} for(int i=0;i<2;i++) waitpid(k[i],0,0); rmdir("/sys/fs/cgroup/unified/writer"); return 0; }
