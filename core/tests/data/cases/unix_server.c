// unix_server: FIFO-80 "client" (CPU 0) asks FIFO-50 "server" (CPU 1) over a socket pair; FIFO-70 "hog" has CPU 1 for 6 ms the third time
#include "markers.h"
static int s[2]; static ns_t T0; enum{N=3};
static void*server(void*x){ who("server"); pin(1); fifo(50); char c; for(int i=0;i<N;i++){ if(read(s[1],&c,1)!=1) perror("r"); spin_cpu(200*US); if(write(s[1],&c,1)!=1) perror("w"); } return 0; }
static void*hog(void*x){ who("hog"); pin(1); fifo(70); for(int i=0;i<N;i++){ until(T0+i*60*MS+100*US); if(i==2) spin_wall(6*MS);} return 0; }
static void*client(void*x){ who("client"); pin(0); fifo(80); char c=1; for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); if(write(s[0],&c,1)!=1) perror("w"); if(read(s[0],&c,1)!=1) perror("r"); mark(601,i);} return 0; }
int main(void){ memlock(); if(socketpair(AF_UNIX,SOCK_STREAM,0,s)) perror("sp"); T0=now()+300*MS; pthread_t t[3]; pthread_create(t,0,server,0); pthread_create(t+1,0,hog,0); pthread_create(t+2,0,client,0); for(int i=0;i<3;i++) pthread_join(t[i],0); return 0; }
