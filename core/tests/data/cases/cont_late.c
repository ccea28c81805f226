// cont_late: FIFO-80 "control" (CPU 0) reads a pipe of process "giver" (CPU 1), which computes 1 ms; "sup" stops it at 0.5 ms, and to continue it waits behind FIFO-60 "hog" (CPU 1) for 5 ms
#include "markers.h"
enum{N=3}; static ns_t T0; static int p[2];
int main(void){ memlock(); pipe(p); T0=now()+300*MS; pid_t k[3]; char c;
 if(!(k[0]=fork())){ who("giver"); pin(1); fifo(30); for(int i=0;i<N;i++){ until(T0+i*60*MS+200*US); spin_cpu(1*MS); write(p[1],"x",1);} _exit(0);}
 if(!(k[1]=fork())){ who("hog"); pin(1); fifo(60); for(int i=0;i<N;i++){ until(T0+i*60*MS+900*US); spin_wall(i==2?6*MS:20*US);} _exit(0);}
 if(!(k[2]=fork())){ who("sup"); pin(1); fifo(40); until(T0+2*60*MS+500*US); kill(k[0],SIGSTOP); until(T0+2*60*MS+1500*US); kill(k[0],SIGCONT); _exit(0);}
 who("control"); pin(0); fifo(80); for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); read(p[0],&c,1); mark(601,i);} for(int i=0;i<3;i++) waitpid(k[i],0,0); return 0; }
