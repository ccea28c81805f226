// ptraced: FIFO-80 "target" (CPU 0) is traced by FIFO-60 "debugger" (CPU 1), which computes 4 ms at the stop of its third getppid
#include "markers.h"
#include <sys/ptrace.h>
enum{N=3};
int main(void){ pid_t c=fork(); if(!c){ who("target"); pin(0); fifo(80); ptrace(PTRACE_TRACEME,0,0,0); raise(SIGSTOP); for(int i=0;i<N;i++){ until(now()+40*MS); mark(600,i); raise(SIGUSR1); mark(601,i);} _exit(0);} 
 who("debugger"); pin(1); fifo(60); int st; waitpid(c,&st,0); ptrace(PTRACE_CONT,c,0,0); for(int k=0;;){ if(waitpid(c,&st,0)<0||WIFEXITED(st)||WIFSIGNALED(st)) break; if(WIFSTOPPED(st)){ int sig=WSTOPSIG(st); if(sig==SIGUSR1){ if(k++==2) spin_cpu(4*MS); sig=0;} ptrace(PTRACE_CONT,c,0,sig);} } return 0; }
