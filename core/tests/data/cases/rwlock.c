// rwlock: FIFO-80 "writer" (CPU 0) waits for a read-write lock that FIFO-50 "reader" (CPU 1) holds 4 ms for reading
#include "markers.h"
static pthread_rwlock_t l=PTHREAD_RWLOCK_INITIALIZER; static ns_t T0; enum{N=3};
static void*reader(void*x){ who("reader"); pin(1); fifo(50); for(int i=0;i<N;i++){ until(T0+i*60*MS); pthread_rwlock_rdlock(&l); spin_cpu(i==2?4*MS:500*US); pthread_rwlock_unlock(&l);} return 0; }
static void*writer(void*x){ who("writer"); pin(0); fifo(80); for(int i=0;i<N;i++){ until(T0+i*60*MS+300*US); mark(600,i); pthread_rwlock_wrlock(&l); mark(601,i); pthread_rwlock_unlock(&l);} return 0; }
int main(void){ memlock(); T0=now()+300*MS; pthread_t t[2]; pthread_create(t,0,reader,0); pthread_create(t+1,0,writer,0); for(int i=0;i<2;i++) pthread_join(t[i],0); return 0; }
