// stop_reader: FIFO-80 process "client" waits in epoll_wait; "sup" stops it (SIGSTOP) from 1 to 4 ms; FIFO-50 "server" (CPU 1) computes 6 ms (3rd) and writes
#include "markers.h"
#include <sys/epoll.h>
static ns_t T0; enum{N=3}; static int p[2];
int main(void){ memlock(); pipe(p); T0=now()+400*MS; pid_t k[2],me=getpid(); char c;
 if(!(k[0]=fork())){ who("server"); pin(1); fifo(50); for(int i=0;i<N;i++){ until(T0+i*60*MS+200*US); spin_cpu(i==2?6*MS:100*US); write(p[1],"x",1);} _exit(0);}
 if(!(k[1]=fork())){ who("sup"); pin(0); fifo(60); until(T0+2*60*MS+1*MS); kill(me,SIGSTOP); until(T0+2*60*MS+4*MS); kill(me,SIGCONT); _exit(0);}
 who("client"); pin(0); fifo(80); int e=epoll_create1(0); struct epoll_event v={.events=EPOLLIN}; epoll_ctl(e,EPOLL_CTL_ADD,p[0],&v); for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); while(epoll_wait(e,&v,1,-1)<0); mark(601,i); read(p[0],&c,1);} for(int i=0;i<2;i++) waitpid(k[i],0,0); return 0; }
