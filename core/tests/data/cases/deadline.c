// deadline: SCHED_DEADLINE "servo" (5 ms of each 25 ms) computes 1 ms, the third time 20 ms: its budget is used up
#include "markers.h"
struct attr{ uint32_t size,policy; uint64_t flags; int32_t nice; uint32_t prio; uint64_t runtime,deadline,period; };
int main(void){ memlock(); who("servo"); struct attr a={sizeof a,6,0,0,0,5*MS,25*MS,25*MS}; if(syscall(SYS_sched_setattr,0,&a,0)) perror("sched_setattr");
 for(int i=0;i<3;i++){ usleep(50000); mark(600,i); spin_cpu(i==2?20*MS:1*MS); mark(601,i);} return 0; }
