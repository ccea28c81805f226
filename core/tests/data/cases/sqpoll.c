// FIFO-80 "submitter" (CPU 0) submits a NOP to an io_uring with SQPOLL on CPU 1 and waits for its completion; FIFO-70 "hog" has CPU 1 for 6 ms
#include "markers.h"
#include <linux/io_uring.h>
static ns_t T0; enum{N=3};
static void*hog(void*x){ who("hog"); pin(1); fifo(70); for(int i=0;i<N;i++){ until(T0+i*60*MS-500*US); spin_wall(6500*US);} return 0; }
int main(void){ T0=now()+300*MS; struct io_uring_params p={.flags=IORING_SETUP_SQPOLL|IORING_SETUP_SQ_AFF,.sq_thread_cpu=1,.sq_thread_idle=20}; int r=syscall(SYS_io_uring_setup,8,&p); if(r<0) perror("setup");
 char*sq=mmap(0,p.sq_off.array+p.sq_entries*4,3,MAP_SHARED|MAP_POPULATE,r,IORING_OFF_SQ_RING); char*cq=mmap(0,p.cq_off.cqes+p.cq_entries*sizeof(struct io_uring_cqe),3,MAP_SHARED|MAP_POPULATE,r,IORING_OFF_CQ_RING); struct io_uring_sqe*e=mmap(0,p.sq_entries*sizeof*e,3,MAP_SHARED|MAP_POPULATE,r,IORING_OFF_SQES);
 pthread_t t; pthread_create(&t,0,hog,0); who("submitter"); pin(0); fifo(80);
 for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); unsigned tail=*(unsigned*)(sq+p.sq_off.tail); memset(&e[tail&7],0,sizeof*e); e[tail&7].opcode=IORING_OP_NOP; ((unsigned*)(sq+p.sq_off.array))[tail&7]=tail&7; __atomic_store_n((unsigned*)(sq+p.sq_off.tail),tail+1,__ATOMIC_SEQ_CST); __sync_synchronize(); if(*(volatile unsigned*)(sq+p.sq_off.flags)&IORING_SQ_NEED_WAKEUP) syscall(SYS_io_uring_enter,r,1,0,IORING_ENTER_SQ_WAKEUP,0,0); syscall(SYS_io_uring_enter,r,0,1,IORING_ENTER_GETEVENTS,0,0); __atomic_add_fetch((unsigned*)(cq+p.cq_off.head),1,__ATOMIC_SEQ_CST); mark(601,i);} pthread_join(t,0); return 0; }
