// frozen_reader: FIFO-80 "client" waits in read for a pipe; "icer" freezes the client's cgroup from 1 to 4 ms; FIFO-50 "server" (CPU 1) computes 6 ms (3rd) and writes
#include "markers.h"
#include <sys/stat.h>
static ns_t T0; enum{N=3}; static int p[2]; static const char*D="/sys/fs/cgroup/unified/lh_reader";
static void put(const char*f,const char*v){ char n[200]; snprintf(n,200,"%s/%s",D,f); int d=open(n,O_WRONLY); if(d<0||write(d,v,strlen(v))<0) perror(f); close(d); }
int main(void){ memlock(); pipe(p); T0=now()+400*MS; pid_t k[2]; char c; mkdir(D,0755);
 if(!(k[0]=fork())){ who("server"); pin(1); fifo(50); for(int i=0;i<N;i++){ until(T0+i*60*MS+200*US); spin_cpu(i==2?6*MS:100*US); write(p[1],"x",1);} _exit(0);}
 if(!(k[1]=fork())){ who("icer"); pin(0); fifo(60); until(T0+2*60*MS+1*MS); put("cgroup.freeze","1"); until(T0+2*60*MS+4*MS); put("cgroup.freeze","0"); _exit(0);}
 char n[20]; sprintf(n,"%d",getpid()); put("cgroup.procs",n); who("client"); pin(0); fifo(80); for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); read(p[0],&c,1); mark(601,i);} for(int i=0;i<2;i++) waitpid(k[i],0,0); int d=open("/sys/fs/cgroup/unified/cgroup.procs",O_WRONLY); write(d,n,strlen(n)); close(d); rmdir(D); return 0; }
