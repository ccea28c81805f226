// nagle: FIFO-80 "control" (CPU 0) sends a request over loopback TCP in two parts; the second one is held back by Nagle's algorithm until the delayed acknowledgement of "server" (a timer of 40 ms)
#include "markers.h"
#include <netinet/tcp.h>
#include <sched.h>
#include <net/if.h>
#include <sys/ioctl.h>
enum{N=3}; static ns_t T0; static int l;
static void get(int s,int n){ char b[64]; while(n>0){ int r=recv(s,b,n>64?64:n,0); if(r<=0){perror("recv");return;} n-=r; } }
static void*server(void*x){ who("server"); pin(1); fifo(50); int s=accept(l,0,0),one=1; setsockopt(s,IPPROTO_TCP,TCP_NODELAY,&one,4); for(int i=0;i<N*2;i++){ get(s,20); if(send(s,"answer",6,0)!=6) perror("s"); } return 0; }
int main(void){ if(unshare(CLONE_NEWNET)) perror("ns"); int u=socket(AF_INET,SOCK_DGRAM,0); struct ifreq r={.ifr_flags=IFF_UP|IFF_RUNNING}; strcpy(r.ifr_name,"lo"); ioctl(u,SIOCSIFFLAGS,&r); memlock(); l=socket(AF_INET,SOCK_STREAM,0); struct sockaddr_in a={.sin_family=AF_INET,.sin_port=htons(7001),.sin_addr.s_addr=htonl(INADDR_LOOPBACK)}; if(bind(l,(void*)&a,sizeof a)||listen(l,1)) perror("l"); pthread_t t; pthread_create(&t,0,server,0); int s=socket(AF_INET,SOCK_STREAM,0); if(connect(s,(void*)&a,sizeof a)) perror("c"); T0=now()+300*MS; who("control"); pin(0); fifo(80); for(int i=0;i<N*2;i++){ until(T0+i*100*MS); if(i==N*2-1||i<2) mark(600,i); if(i>=N){ send(s,"0123456789",10,0); send(s,"0123456789",10,0);} else send(s,"01234567890123456789",20,0); get(s,6); if(i==N*2-1||i<2) mark(601,i);} pthread_join(t,0); return 0; }
