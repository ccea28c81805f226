// FIFO-80 "splicer" splices from a pipe to another; FIFO-50 "feeder" (CPU 1) is preempted 5 ms by FIFO-70 "hog" before it writes
#include "markers.h"
static ns_t T0; enum{N=3}; static int p[2],q[2];
static void*feeder(void*x){ who("feeder"); pin(1); fifo(50); for(int i=0;i<N;i++){ until(T0+i*60*MS+200*US); spin_cpu(300*US); write(p[1],"abcd",4);} return 0; }
static void*hog(void*x){ who("hog"); pin(1); fifo(70); for(int i=0;i<N;i++){ until(T0+i*60*MS+300*US); spin_wall(5*MS);} return 0; }
static void*splicer(void*x){ who("splicer"); pin(0); fifo(80); char c[9]; for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); if(splice(p[0],0,q[1],0,4,0)!=4) perror("splice"); mark(601,i); read(q[0],c,4);} return 0; }
int main(void){ memlock(); pipe(p); pipe(q); T0=now()+300*MS; pthread_t t[3]; pthread_create(t,0,feeder,0); pthread_create(t+1,0,hog,0); pthread_create(t+2,0,splicer,0); for(int i=0;i<3;i++) pthread_join(t[i],0); return 0; }
