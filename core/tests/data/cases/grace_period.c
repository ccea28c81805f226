// grace_period: FIFO-80 "config" waits for a grace period of RCU (membarrier)
#include "markers.h"
int main(void){ memlock(); who("config"); pin(1); fifo(80); for(int i=0;i<3;i++){ usleep(50000); mark(600,i); if(i==2&&syscall(SYS_membarrier,1,0,0)) perror("membarrier"); mark(601,i);} return 0; }
