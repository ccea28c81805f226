// owner_io: FIFO-80 "servoctl" waits for a mutex whose holder "logger" (nice 0) writes a file to the disk in its critical section
#include "markers.h"
static pthread_mutex_t mu=PTHREAD_MUTEX_INITIALIZER; static ns_t T0; enum{N=3};
static void*holder(void*x){ who("logger"); pin(1); int fd=open("log.data",O_RDWR|O_CREAT|O_TRUNC,0600); static char b[1<<20];
 for(int i=0;i<N;i++){ until(T0+i*60*MS); pthread_mutex_lock(&mu); if(i==2){ if(write(fd,b,sizeof b)<0) perror("w"); fsync(fd);} else spin_cpu(300*US); pthread_mutex_unlock(&mu);} return 0; }
static void*victim(void*x){ who("servoctl"); pin(0); fifo(80);
 for(int i=0;i<N;i++){ until(T0+i*60*MS+200*US); mark(600,i); pthread_mutex_lock(&mu); mark(601,i); pthread_mutex_unlock(&mu);} return 0; }
int main(void){ memlock(); T0=now()+300*MS; pthread_t t[2]; pthread_create(t,0,holder,0); pthread_create(t+1,0,victim,0); for(int i=0;i<2;i++) pthread_join(t[i],0); return 0; }
