// sem_undo: FIFO-80 "control" (CPU 0) waits in semop; process "holder" (CPU 1, FIFO-40) took the semaphore with SEM_UNDO, computes 5 ms and exits: the undo releases it
#include "markers.h"
#include <sys/sem.h>
enum{N=3}; static ns_t T0;
int main(void){ memlock(); int id=semget(IPC_PRIVATE,1,0600|IPC_CREAT); semctl(id,0,SETVAL,1); T0=now()+300*MS; pid_t k[N];
 for(int i=0;i<N;i++) if(!(k[i]=fork())){ who("holder"); pin(1); fifo(40); until(T0+i*60*MS-1*MS); struct sembuf d={0,-1,SEM_UNDO}; semop(id,&d,1); spin_cpu(i==2?6*MS:2*MS); _exit(0);}
 who("control"); pin(0); fifo(80); for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); struct sembuf d={0,-1,0}; semop(id,&d,1); mark(601,i); d.sem_op=1; semop(id,&d,1);} for(int i=0;i<N;i++) waitpid(k[i],0,0); semctl(id,0,IPC_RMID); return 0; }
