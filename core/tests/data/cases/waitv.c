// FIFO-80 "multi" waits for any of three futexes (futex_waitv); FIFO-50 "owner" computes 6 ms on CPU 1, then wakes the second
#include "markers.h"
#include <linux/futex.h>
static uint32_t w[3]; static ns_t T0; enum{N=3};
struct wv{uint64_t val,uaddr;uint32_t flags,res;};
static void*owner(void*x){ who("owner"); pin(1); fifo(50); for(int i=0;i<N;i++){ until(T0+i*60*MS+300*US); spin_cpu(6*MS); __atomic_add_fetch(&w[1],1,__ATOMIC_SEQ_CST); syscall(SYS_futex,&w[1],FUTEX_WAKE|FUTEX_PRIVATE_FLAG,1,0,0,0);} return 0; }
static void*multi(void*x){ who("multi"); pin(0); fifo(80); for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); struct wv v[3]; for(int j=0;j<3;j++) v[j]=(struct wv){w[j],(uint64_t)&w[j],2|128,0}; if(syscall(449,v,3,0,0,0)<0) perror("waitv"); mark(601,i);} return 0; }
int main(void){ memlock(); T0=now()+300*MS; pthread_t t[2]; pthread_create(t,0,owner,0); pthread_create(t+1,0,multi,0); for(int i=0;i<2;i++) pthread_join(t[i],0); return 0; }
