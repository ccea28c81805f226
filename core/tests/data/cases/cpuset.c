// cpuset: "admin" (CPU 0) moves FIFO-60 "control" (computing 3 ms on CPU 1) by its cpuset to CPU 0, where FIFO-70 "hogger" runs 6 ms; the stopper thread does it
#include "markers.h"
#include <sys/stat.h>
static void put(const char*f,const char*t){ char p[128]; snprintf(p,128,"/sys/fs/cgroup/cpuset/%s",f); int d=open(p,O_WRONLY); if(d<0||write(d,t,strlen(t))<0) perror(p); close(d); }
enum{N=3}; static ns_t T0;
static void*hogger(void*x){ who("hogger"); pin(0); fifo(70); until(T0+2*60*MS+500*US); spin_cpu(6*MS); return 0; }
static void*admin(void*x){ who("admin"); pin(0); fifo(75); until(T0+2*60*MS+1*MS); put("lathunt_case/cpuset.cpus","0"); usleep(20000); put("lathunt_case/cpuset.cpus","0-1"); return 0; }
static void*control(void*x){ who("control"); char t[32]; snprintf(t,32,"%d",(int)syscall(SYS_gettid)); put("lathunt_case/tasks",t); fifo(60); put("lathunt_case/cpuset.cpus","1"); for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); spin_cpu(3*MS); mark(601,i);} put("tasks",t); return 0; }
int main(void){ memlock(); mkdir("/sys/fs/cgroup/cpuset/lathunt_case",0755); put("lathunt_case/cpuset.mems","0"); put("lathunt_case/cpuset.cpus","0-1"); T0=now()+300*MS; pthread_t t[3]; pthread_create(t,0,hogger,0); pthread_create(t+1,0,admin,0); pthread_create(t+2,0,control,0); for(int i=0;i<3;i++) pthread_join(t[i],0); usleep(50000); if(rmdir("/sys/fs/cgroup/cpuset/lathunt_case")) perror("rmdir"); return 0; }
