// tmr: FIFO-80 "axis" reads a timerfd that "planner" (CPU 1) arms: 1 ms, in round 2 7 ms
#include "markers.h"
static ns_t T0; static int tf;
static void*ax(void*x){ who("axis"); pin(0); fifo(80); for(int i=0;i<4;i++){ uint64_t n; until(T0+i*20*MS-1*MS); mark(600,i); if(read(tf,&n,8)!=8) perror("r"); mark(601,i);} return 0;}
static void*pl(void*x){ who("planner"); pin(1); for(int i=0;i<4;i++){ until(T0+i*20*MS); struct itimerspec s={.it_value={0,i==2?7*MS:1*MS}}; timerfd_settime(tf,0,&s,0);} return 0;}
int main(void){ memlock(); tf=timerfd_create(CLOCK_MONOTONIC,0); T0=now()+300*MS; pthread_t t[2]; pthread_create(t,0,ax,0); pthread_create(t+1,0,pl,0); for(int i=0;i<2;i++) pthread_join(t[i],0); return 0; }
