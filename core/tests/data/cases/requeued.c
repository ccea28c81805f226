// requeued: FIFO-80 "control" (CPU 0) waits for a word, from which FIFO-60 "caster" (CPU 1) requeues it (FUTEX_CMP_REQUEUE) to another at 0.5 ms (3rd); FIFO-40 "holder" (CPU 1) wakes that one after computing 4 ms
#include "markers.h"
#include <linux/futex.h>
enum{N=3}; static ns_t T0; static uint32_t w,l=2; static long fx(uint32_t*a,int op,uint32_t v,long t,uint32_t*b,uint32_t z){ return syscall(SYS_futex,a,op|FUTEX_PRIVATE_FLAG,v,t,b,z); }
static void*caster(void*x){ who("caster"); pin(1); fifo(60); until(T0+2*60*MS+500*US); fx(&w,FUTEX_CMP_REQUEUE,0,1,&l,0); return 0; }
static void*holder(void*x){ who("holder"); pin(1); fifo(40); for(int i=0;i<N;i++){ until(T0+i*60*MS+200*US); spin_cpu(i==2?4*MS:100*US); fx(i==2?&l:&w,FUTEX_WAKE,1,0,0,0);} return 0; }
int main(void){ memlock(); T0=now()+300*MS; pthread_t t[2]; pthread_create(t,0,caster,0); pthread_create(t+1,0,holder,0); who("control"); pin(0); fifo(80); for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); fx(&w,FUTEX_WAIT,0,0,0,0); mark(601,i);} for(int i=0;i<2;i++) pthread_join(t[i],0); return 0; }
