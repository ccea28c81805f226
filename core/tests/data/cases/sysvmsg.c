// sysvmsg: FIFO-80 "worker" (CPU 0) receives from a System V queue what FIFO-50 "dispatcher" (CPU 1) sends after a sleep of 5 ms
#include "markers.h"
#include <sys/msg.h>
static int q; static ns_t T0; enum{N=3}; struct m{long t; char c;};
static void*dispatcher(void*x){ who("dispatcher"); pin(1); fifo(50); struct m m={1,'x'}; for(int i=0;i<N;i++){ until(T0+i*60*MS+200*US); if(i==2) until(now()+5*MS); if(msgsnd(q,&m,1,0)) perror("snd"); } return 0; }
static void*worker(void*x){ who("worker"); pin(0); fifo(80); struct m m; for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); if(msgrcv(q,&m,1,0,0)<0) perror("rcv"); mark(601,i);} return 0; }
int main(void){ memlock(); q=msgget(IPC_PRIVATE,0600); T0=now()+300*MS; pthread_t t[2]; pthread_create(t,0,dispatcher,0); pthread_create(t+1,0,worker,0); for(int i=0;i<2;i++) pthread_join(t[i],0); msgctl(q,IPC_RMID,0); return 0; }
