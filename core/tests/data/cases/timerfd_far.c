// timerfd_far: FIFO-80 "control" (CPU 0) reads a timerfd that "boss" (CPU 1, FIFO 30) arms 1 ms ahead, after it waited behind FIFO-60 "hog" for 6 ms
#include "markers.h"
enum{N=3}; static ns_t T0;
int main(void){ memlock(); int f=timerfd_create(CLOCK_MONOTONIC,0); T0=now()+300*MS; pid_t k[2]; uint64_t v;
 if(!(k[0]=fork())){ who("boss"); pin(1); fifo(30); for(int i=0;i<N;i++){ until(T0+i*60*MS+300*US); struct itimerspec s={.it_value.tv_nsec=1*MS}; timerfd_settime(f,0,&s,0);} _exit(0);}
 if(!(k[1]=fork())){ who("hog"); pin(1); fifo(60); for(int i=0;i<N;i++){ until(T0+i*60*MS+200*US); spin_wall(i==2?6*MS:20*US);} _exit(0);}
 who("control"); pin(0); fifo(80); for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); read(f,&v,8); mark(601,i);} for(int i=0;i<2;i++) waitpid(k[i],0,0); return 0; }
