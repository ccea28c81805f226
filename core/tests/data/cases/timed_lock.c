// timed_lock: FIFO-80 "control" (CPU 0) waits at most 3 ms for a mutex that "owner" (CPU 1, nice 0) holds for 7 ms, computing
#include "markers.h"
enum{N=3}; static ns_t T0; static pthread_mutex_t m;
static void*owner(void*a){ (void)a; who("owner"); pin(1); for(int i=0;i<N;i++){ until(T0+i*60*MS-500*US); pthread_mutex_lock(&m); spin_wall(i==2?7*MS:600*US); pthread_mutex_unlock(&m);} return 0;}
int main(void){ memlock(); pthread_mutex_init(&m,0); T0=now()+300*MS; pthread_t t; pthread_create(&t,0,owner,0);
 who("control"); pin(0); fifo(80); for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); struct timespec d; clock_gettime(CLOCK_REALTIME,&d); d.tv_nsec+=3*MS; if(d.tv_nsec>=1000000000){d.tv_sec++;d.tv_nsec-=1000000000;} if(!pthread_mutex_timedlock(&m,&d)) pthread_mutex_unlock(&m); mark(601,i);} pthread_join(t,0); return 0; }
