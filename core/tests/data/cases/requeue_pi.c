// requeue_pi: FIFO-80 "waiter" (CPU 0) waits for a condition (FUTEX_WAIT_REQUEUE_PI); "signaller" (FIFO 50, CPU 1) requeues it to a PI mutex that it holds 3 ms longer
#include "markers.h"
#include <linux/futex.h>
static uint32_t cond, mu; static ns_t T0; enum{N=3};
static long fu(uint32_t*a,int op,uint32_t v,void*t,uint32_t*b,uint32_t w){ return syscall(SYS_futex,a,op|FUTEX_PRIVATE_FLAG,v,t,b,w); }
static void lock(void){ uint32_t z=0, me=syscall(SYS_gettid); if(!__atomic_compare_exchange_n(&mu,&z,me,0,__ATOMIC_ACQUIRE,__ATOMIC_RELAXED)) fu(&mu,FUTEX_LOCK_PI,0,0,0,0); }
static void unlock(void){ uint32_t me=syscall(SYS_gettid); if(!__atomic_compare_exchange_n(&mu,&me,0,0,__ATOMIC_RELEASE,__ATOMIC_RELAXED)) fu(&mu,FUTEX_UNLOCK_PI,0,0,0,0); }
static void*sig(void*x){ who("signaller"); pin(1); fifo(50); for(int i=0;i<N;i++){ until(T0+i*60*MS+500*US); lock(); __atomic_add_fetch(&cond,1,__ATOMIC_SEQ_CST); if(fu(&cond,FUTEX_CMP_REQUEUE_PI,1,(void*)0,&mu,cond)<0) perror("requeue"); spin_cpu(i==2?3*MS:100*US); unlock(); } return 0; }
static void*waiter(void*x){ who("waiter"); pin(0); fifo(80); for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); uint32_t c=cond; if(fu(&cond,FUTEX_WAIT_REQUEUE_PI,c,0,&mu,0)) perror("wait"); mark(601,i); unlock(); } return 0; }
int main(void){ memlock(); T0=now()+300*MS; pthread_t t[2]; pthread_create(t,0,sig,0); pthread_create(t+1,0,waiter,0); for(int i=0;i<2;i++) pthread_join(t[i],0); return 0; }
