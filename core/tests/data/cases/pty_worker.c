// pty: "sender" (CPU 0) writes into a pty master 600(i); FIFO-80 "serreader" (CPU 0) reads the slave 601(i); the work item (flush_to_ldisc) runs in a kworker of CPU 0/1; "bremser" FIFO 50 hogs
#include "markers.h"
#include <pty.h>
#include <termios.h>
static int m,s; static ns_t T0;
static void*rd(void*x){ who("serreader"); pin(0); fifo(80); char c; for(int i=0;i<4;i++){ if(read(s,&c,1)!=1) perror("r"); mark(601,c);} return 0;}
static void*wr(void*x){ who("sender"); pin(1); fifo(60); for(int i=0;i<4;i++){ until(T0+i*40*MS); char c=i; mark(600,i); if(write(m,&c,1)!=1) perror("w"); } return 0;}
static void*hog(void*x){ who("bremser"); pin(1); fifo(50); until(T0+2*40*MS-1*MS); spin_wall(8*MS); return 0;}
int main(void){ memlock(); struct termios t; openpty(&m,&s,0,0,0); tcgetattr(s,&t); cfmakeraw(&t); tcsetattr(s,TCSANOW,&t); T0=now()+300*MS; pthread_t a[3];
 pthread_create(a,0,rd,0); pthread_create(a+1,0,wr,0); pthread_create(a+2,0,hog,0); for(int i=0;i<3;i++) pthread_join(a[i],0); return 0; }
