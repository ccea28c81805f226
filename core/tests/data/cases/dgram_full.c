// dgram_full: FIFO-80 "sender" (CPU 0) sends datagrams to a Unix socket whose queue is full; "reader" (CPU 1) sleeps 4 ms of its own will before it reads, the third time
#include "markers.h"
static int s[2]; static ns_t T0; enum{N=3};
static void*reader(void*x){ who("reader"); pin(1); fifo(50); char b[64]; for(int i=0;i<N;i++){ until(T0+i*60*MS+(i==2?4*MS:200*US)); while(recv(s[1],b,64,MSG_DONTWAIT)>0); } return 0; }
static void*sender(void*x){ who("sender"); pin(0); fifo(80); char b[64]={0}; for(int i=0;i<N;i++){ until(T0+i*60*MS-5*MS); while(send(s[0],b,64,MSG_DONTWAIT)>0); until(T0+i*60*MS); mark(600,i); if(send(s[0],b,64,0)!=64) perror("send"); mark(601,i);} return 0; }
int main(void){ memlock(); socketpair(AF_UNIX,SOCK_DGRAM,0,s); T0=now()+300*MS; pthread_t t[2]; pthread_create(t,0,reader,0); pthread_create(t+1,0,sender,0); for(int i=0;i<2;i++) pthread_join(t[i],0); return 0; }
