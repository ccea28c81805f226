// pacing: FIFO-80 "viewer" (CPU 0) reads a frame of 400 kB from a TCP connection over loopback; the socket of "camera"
// (CPU 1) may send 8 MB a second (SO_MAX_PACING_RATE), which a soft hrtimer (tcp_pace_kick) keeps to.
#include "markers.h"
#include <netinet/tcp.h>
static char b[400000]; static ns_t T0; static int tx,rx; enum{N=3};
static void*cam(void*x){ who("camera"); pin(1); fifo(60); for(int i=0;i<N;i++){ until(T0+i*150*MS); if(i==2){ unsigned r=8000000; setsockopt(tx,SOL_SOCKET,SO_MAX_PACING_RATE,&r,sizeof r);} for(size_t n=0;n<sizeof b;){ ssize_t k=write(tx,b,sizeof b-n); if(k<=0){perror("w");break;} n+=k; } } return 0; }
static void*view(void*x){ who("viewer"); pin(0); fifo(80); static char c[400000]; for(int i=0;i<N;i++){ until(T0+i*150*MS-1*MS); mark(600,i); if(recv(rx,c,sizeof c,MSG_WAITALL)!=sizeof c) perror("r"); mark(601,i);} return 0; }
int main(void){ memlock(); int l=socket(AF_INET,SOCK_STREAM,0); struct sockaddr_in a={.sin_family=AF_INET}; a.sin_addr.s_addr=htonl(INADDR_LOOPBACK); socklen_t n=sizeof a;
 if(bind(l,(void*)&a,n)||listen(l,1)||getsockname(l,(void*)&a,&n)) perror("listen"); tx=socket(AF_INET,SOCK_STREAM,0); if(connect(tx,(void*)&a,n)) perror("connect"); rx=accept(l,0,0);
 T0=now()+300*MS; pthread_t t[2]; pthread_create(t,0,cam,0); pthread_create(t+1,0,view,0); for(int i=0;i<2;i++) pthread_join(t[i],0); return 0; }
