// pty_full: FIFO-80 "control" (CPU 0) writes 20 kB to a pty; the master's reader "viewer" (FIFO-40, CPU 1) reads only after 5 ms of computing (3rd)
#include "markers.h"
#include <termios.h>
enum{N=3}; static ns_t T0; static int m,s;
static void*viewer(void*x){ who("viewer"); pin(1); fifo(40); static char b[65536]; for(int i=0;i<N;i++){ until(T0+i*80*MS+200*US); spin_cpu(i==2?5*MS:100*US); int left=20000; while(left>0){ int n=read(m,b,sizeof b); if(n<=0) break; left-=n; } } return 0; }
static void*control(void*x){ who("control"); pin(0); fifo(80); static char b[20000]; memset(b,'a',sizeof b); for(int i=0;i<N;i++){ until(T0+i*80*MS); mark(600,i); int left=20000; while(left>0){ int n=write(s,b,left); if(n<=0) break; left-=n; } mark(601,i);} return 0; }
int main(void){ memlock(); m=posix_openpt(O_RDWR|O_NOCTTY); grantpt(m); unlockpt(m); s=open(ptsname(m),O_RDWR|O_NOCTTY); struct termios t; tcgetattr(s,&t); cfmakeraw(&t); tcsetattr(s,TCSANOW,&t); T0=now()+300*MS; pthread_t th[2]; pthread_create(th,0,viewer,0); pthread_create(th+1,0,control,0); for(int i=0;i<2;i++) pthread_join(th[i],0); return 0; }
