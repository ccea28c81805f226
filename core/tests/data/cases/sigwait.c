// sigwait: FIFO-80 "control" (CPU 0) waits for a signal (sigtimedwait, 1 s), which FIFO-60 "boss" (CPU 1) sends after a read from its pipe, that FIFO-40 "clerk" (CPU 1) fills after 4 ms of work
#include "markers.h"
static ns_t T0; static int p[2]; enum{N=3}; static pthread_t ct;
static void*clerk(void*x){ who("clerk"); pin(1); fifo(40); for(int i=0;i<N;i++){ until(T0+i*60*MS+100*US); spin_cpu(i==2?4*MS:100*US); if(write(p[1],"x",1)!=1) perror("w"); } return 0; }
static void*boss(void*x){ who("boss"); pin(1); fifo(60); char c; for(int i=0;i<N;i++){ if(read(p[0],&c,1)!=1) perror("r"); pthread_kill(ct,SIGUSR2);} return 0; }
static void*control(void*x){ who("control"); pin(0); fifo(80); sigset_t s; sigemptyset(&s); sigaddset(&s,SIGUSR2); struct timespec w={1,0}; for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); if(sigtimedwait(&s,0,&w)<0) perror("sigwait"); mark(601,i);} return 0; }
int main(void){ memlock(); if(pipe(p)) perror("pipe"); sigset_t s; sigemptyset(&s); sigaddset(&s,SIGUSR2); pthread_sigmask(SIG_BLOCK,&s,0); T0=now()+300*MS; pthread_t t[3]; pthread_create(&ct,0,control,0); pthread_create(t,0,clerk,0); pthread_create(t+1,0,boss,0); pthread_join(ct,0); for(int i=0;i<2;i++) pthread_join(t[i],0); return 0; }
