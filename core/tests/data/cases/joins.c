// joins: FIFO-80 "boss" (CPU 0) joins FIFO-50 "helper" (CPU 1), which computes 4 ms before it ends
#include "markers.h"
static ns_t T0; enum{N=3};
static void*helper(void*x){ who("helper"); pin(1); fifo(50); spin_cpu((long)x==2?4*MS:300*US); return 0; }
static void*boss(void*x){ who("boss"); pin(0); fifo(80); for(long i=0;i<N;i++){ until(T0+i*60*MS); pthread_t t; pthread_create(&t,0,helper,(void*)i); until(now()+150*US); mark(600,i); pthread_join(t,0); mark(601,i);} return 0; }
int main(void){ memlock(); T0=now()+300*MS; pthread_t t; pthread_create(&t,0,boss,0); pthread_join(t,0); return 0; }
