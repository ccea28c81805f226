// stopped: "operator" stops FIFO-80 "ctrl" (SIGSTOP) for 15 ms in its third passage, as a debugger does
#include "markers.h"
int main(void){ memlock(); ns_t T0=now()+300*MS; pid_t p=fork(); if(!p){ who("ctrl"); pin(1); fifo(80); for(int i=0;i<3;i++){ until(T0+i*60*MS); mark(600,i); spin_cpu(5*MS); mark(601,i);} _exit(0); }
 who("operator"); pin(0); fifo(50); until(T0+2*60*MS+2*MS); kill(p,SIGSTOP); until(T0+2*60*MS+17*MS); kill(p,SIGCONT); waitpid(p,0,0); return 0; }
