// FIFO-80 "late" sleeps to an absolute time already passed; before that FIFO-90 "hog" on its CPU preempts it for 4 ms
#include "markers.h"
static ns_t T0; enum{N=3};
static void*hog(void*x){ who("hog"); pin(0); fifo(90); for(int i=0;i<N;i++){ until(T0+i*60*MS+500*US); spin_wall(4*MS);} return 0; }
static void*late(void*x){ who("late"); pin(0); fifo(80); for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); spin_cpu(1*MS); until(T0+i*60*MS+2*MS); mark(601,i);} return 0; }
int main(void){ memlock(); T0=now()+300*MS; pthread_t t[2]; pthread_create(t,0,hog,0); pthread_create(t+1,0,late,0); for(int i=0;i<2;i++) pthread_join(t[i],0); return 0; }
