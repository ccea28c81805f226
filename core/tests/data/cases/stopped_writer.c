// FIFO-80 "client" reads a pipe; process "server" (CPU 1) would compute 2 ms and write, but "killer" stops it (SIGSTOP) after 1 ms and continues it after 7 ms
#include "markers.h"
static ns_t T0; enum{N=3}; static int p[2];
int main(void){ memlock(); pipe(p); T0=now()+300*MS; pid_t k[2]; char c;
 if(!(k[0]=fork())){ who("server"); pin(1); fifo(50); for(int i=0;i<N;i++){ until(T0+i*60*MS+200*US); spin_cpu(2*MS); write(p[1],"x",1);} _exit(0);}
 if(!(k[1]=fork())){ who("killer"); pin(0); fifo(60); for(int i=0;i<N;i++){ until(T0+i*60*MS+1*MS); kill(k[0],SIGSTOP); until(T0+i*60*MS+7*MS); kill(k[0],SIGCONT);} _exit(0);}
 who("client"); pin(0); fifo(80); for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); read(p[0],&c,1); mark(601,i);} kill(k[1],0); for(int i=1;i>=0;i--) waitpid(k[i],0,0); return 0; }
