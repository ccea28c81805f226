// timeout: FIFO-80 "bus" (CPU 0) waits for an answer on a socket with a timeout of 40 ms (SO_RCVTIMEO), which the kernel keeps with its
// timer wheel; "device" (CPU 1) does not answer the third time
#include "markers.h"
static ns_t T0; static int s[2]; enum{N=3};
static void*dev(void*x){ who("device"); pin(1); for(int i=0;i<N;i++){ until(T0+i*100*MS+1*MS); if(i!=2&&write(s[1],"a",1)!=1) perror("w"); } return 0; }
static void*bus(void*x){ who("bus"); pin(0); fifo(80); struct timeval v={0,40000}; setsockopt(s[0],SOL_SOCKET,SO_RCVTIMEO,&v,sizeof v); char c; for(int i=0;i<N;i++){ until(T0+i*100*MS); mark(600,i); recv(s[0],&c,1,0); mark(601,i);} return 0; }
int main(void){ memlock(); socketpair(AF_UNIX,SOCK_STREAM,0,s); T0=now()+300*MS; pthread_t t[2]; pthread_create(t,0,dev,0); pthread_create(t+1,0,bus,0); for(int i=0;i<2;i++) pthread_join(t[i],0); return 0; }
