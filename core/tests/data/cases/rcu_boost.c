// rcu_boost: as rcu_reader, but RCU's boosting threads (rcub/N) have FIFO 60, so that the reader "lookup" that FIFO-50 "bremser"
// preempts in its section is lent that priority half a second later and leaves it before "bremser" ends
#include "markers.h"
#include <dirent.h>
#include <sys/stat.h>
static volatile int stop; static ns_t T0;
static void*rd(void*x){ who("lookup"); pin(1); static char p[4000]; for(int i=0;i<1900;i++) strcat(p,"/."); struct stat s; while(!stop) stat(p,&s); return 0;}
static void*hog(void*x){ who("bremser"); pin(1); fifo(50); until(T0+200*MS); spin_wall(900*MS); return 0;}
static void raise_rcu(void){ DIR*d=opendir("/proc"); for(struct dirent*e;(e=readdir(d));){ char p[300],c[32]=""; snprintf(p,300,"/proc/%s/comm",e->d_name);
 FILE*f=fopen(p,"r"); if(!f) continue; fgets(c,32,f); fclose(f); struct sched_param sp={.sched_priority=60}; if((!strncmp(c,"rcub/",5)||!strncmp(c,"rcuc/",5)||!strncmp(c,"rcu_preempt",11)||!strncmp(c,"ktimers/",8))&&sched_setscheduler(atoi(e->d_name),SCHED_FIFO,&sp)) perror(c);} closedir(d); }
int main(void){ memlock(); raise_rcu(); T0=now()+300*MS; pthread_t t[2]; pthread_create(t,0,rd,0); pthread_create(t+1,0,hog,0); who("config"); pin(0); fifo(80);
 for(int i=0;i<2;i++){ until(T0+i*250*MS); mark(600,i); if(i==1&&syscall(SYS_membarrier,1,0,0)) perror("membarrier"); mark(601,i);} stop=1; for(int i=0;i<2;i++) pthread_join(t[i],0); return 0; }
