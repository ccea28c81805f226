// cpu_offline: FIFO-80 "regler" (CPU 1) computes 3 ms of each 10; in its third passage "operator" takes CPU 1 offline, which puts it
// on CPU 0, and there FIFO-90 "wache" computes 80 ms as soon as it sees that
#include "markers.h"
static ns_t T0; static volatile int there, begun; enum{N=4};
static void online(const char*v){ int f=open("/sys/devices/system/cpu/cpu1/online",O_WRONLY); if(write(f,v,1)!=1) perror("online"); close(f); }
static void*hog(void*x){ who("wache"); pin(0); fifo(90); for(ns_t t=T0;!there&&t<T0+2000*MS;t+=2*MS) until(t); begun=1; spin_wall(80*MS); return 0; }
static void*victim(void*x){ who("regler"); pin(1); fifo(80); for(int i=0;i<N;i++){ ns_t t=T0+i*300*MS; until(t); mark(600,i);
  for(ns_t e=t+(i==2?1500:20)*MS;t<e&&!(i==2&&begun);t+=10*MS){ until(t); for(ns_t s=now()+3*MS;now()<s;){ unsigned c=1; syscall(SYS_getcpu,&c,0,0); if(i==2&&c==0) there=1; } }
  mark(601,i);} return 0; }
int main(void){ memlock(); who("operator"); pin(0); T0=now()+300*MS; pthread_t t[2]; pthread_create(t,0,hog,0); pthread_create(t+1,0,victim,0);
 until(T0+2*300*MS+4*MS); online("0"); for(int i=0;i<2;i++) pthread_join(t[i],0); online("1"); return 0; }
