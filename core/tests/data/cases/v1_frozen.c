// v1_frozen: FIFO-80 "control" (CPU 0) reads a pipe whose "writer" (CPU 1) is frozen by "admin" in a v1 freezer cgroup for 8 ms
#include "markers.h"
enum{N=3}; static ns_t T0; static int p[2];
static void put(const char*d,const char*n,const char*s){ char b[256]; snprintf(b,256,"%s/%s",d,n); int f=open(b,O_WRONLY); if(f<0) perror(b); write(f,s,strlen(s)); close(f); }
int main(int c,char**v){ (void)c; memlock(); pipe(p); T0=now()+300*MS; pid_t k[2]; char ch;
 if(!(k[0]=fork())){ who("writer"); put(v[1],"cgroup.procs","0"); pin(1); fifo(30); for(int i=0;i<N;i++){ until(T0+i*90*MS+100*US); spin_cpu(1*MS); write(p[1],"x",1);} _exit(0);}
 if(!(k[1]=fork())){ who("admin"); pin(1); fifo(40); until(T0+2*90*MS+500*US); put(v[1],"freezer.state","FROZEN"); until(T0+2*90*MS+8500*US); put(v[1],"freezer.state","THAWED"); _exit(0);}
 who("control"); pin(0); fifo(80); for(int i=0;i<N;i++){ until(T0+i*90*MS); mark(600,i); read(p[0],&ch,1); mark(601,i);} for(int i=0;i<2;i++) waitpid(k[i],0,0); return 0; }
