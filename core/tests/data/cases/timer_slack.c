// timer_slack: "lazy" (SCHED_OTHER, CPU 1), whose timers have 20 ms of slack, sleeps 1 ms three times
#include "markers.h"
int main(void){ who("lazy"); pin(1); prctl(PR_SET_TIMERSLACK,20*MS); usleep(300000); for(int i=0;i<3;i++){ mark(600,i); usleep(1000); mark(601,i);} return 0; }
