// storm: "flood" (CPU 0) sends 64 kB datagrams over loopback, whose softirq RPS moves to CPU 1; FIFO-80 "victim" computes there
#include "markers.h"
static ns_t T0;
static void*fl(void*x){ who("flood"); pin(0); struct sockaddr_in a={.sin_family=AF_INET,.sin_port=htons(47125)}; a.sin_addr.s_addr=htonl(INADDR_LOOPBACK); int r=socket(AF_INET,SOCK_DGRAM,0),s=socket(AF_INET,SOCK_DGRAM,0); bind(r,(void*)&a,sizeof a); connect(s,(void*)&a,sizeof a); static char b[60000]; until(T0+15*MS); ns_t e=now()+20*MS; while(now()<e) send(s,b,sizeof b,0); return 0;}
int main(void){ memlock(); T0=now()+300*MS; pthread_t t; pthread_create(&t,0,fl,0); who("victim"); pin(1); fifo(80); for(int i=0;i<4;i++){ until(T0+i*8*MS); mark(600,i); volatile long u=0; for(long k=0;k<4000000;k++) u+=k; mark(601,i);} pthread_join(t,0); return 0; }
