// lock_spin: FIFO-80 "taker" (CPU 0) reads a byte from a pipe that "mover" (CPU 1) fills with 1 MB a call, holding the
// kernel's mutex of the pipe: the taker spins for it
#include "markers.h"
static ns_t T0; static char b[1<<20]; static int p[2]; static volatile int go,stop;
static void*mv(void*x){ who("mover"); pin(1); fifo(60); for(int i=0;i<3;i++){ until(T0+i*50*MS); char c; if(i==2){ go=1; if(write(p[1],b,sizeof b)<0) perror("w"); } } return 0; }
static void*tk(void*x){ who("taker"); pin(0); fifo(80); char c; for(int i=0;i<3;i++){ until(T0+i*50*MS-1*MS); if(i==2) while(!go); else if(write(p[1],"x",1)!=1) perror("w"); if(i==2) spin_wall(20*US); mark(600,i); if(read(p[0],&c,1)!=1) perror("r"); mark(601,i);} return 0; }
int main(void){ memlock(); if(pipe(p)||fcntl(p[1],F_SETPIPE_SZ,sizeof b)<0) perror("pipe"); memset(b,1,sizeof b); T0=now()+300*MS; pthread_t t[2]; pthread_create(t,0,mv,0); pthread_create(t+1,0,tk,0); for(int i=0;i<2;i++) pthread_join(t[i],0); return 0; }
