// quota_holder: FIFO-80 "control" (CPU 0) waits for a plain mutex; its holder "clerk" (ordinary, CPU 1) needs 20 ms in a cgroup that may use 10 ms of each 100 ms: throttled
#include "markers.h"
#include <sys/stat.h>
static void put(const char*f,const char*t){ char p[128]; snprintf(p,128,"/sys/fs/cgroup/cpu/%s",f); int d=open(p,O_WRONLY); if(d<0||write(d,t,strlen(t))<0) perror(p); close(d); }
enum{N=3}; static ns_t T0; static pthread_mutex_t m=PTHREAD_MUTEX_INITIALIZER;
static void*clerk(void*x){ who("clerk"); pin(1); char t[32]; snprintf(t,32,"%d",(int)syscall(SYS_gettid)); for(int i=0;i<N;i++){ until(T0+i*200*MS-(i==2?30:2)*MS); if(i==2) { put("lathunt_case/tasks",t); until(T0+i*200*MS-2*MS);} pthread_mutex_lock(&m); spin_cpu(i==2?20*MS:3*MS); pthread_mutex_unlock(&m);} put("tasks",t); return 0; }
static void*control(void*x){ who("control"); pin(0); fifo(80); for(int i=0;i<N;i++){ until(T0+i*200*MS); mark(600,i); pthread_mutex_lock(&m); mark(601,i); pthread_mutex_unlock(&m);} return 0; }
int main(void){ memlock(); mkdir("/sys/fs/cgroup/cpu/lathunt_case",0755); put("lathunt_case/cpu.cfs_period_us","100000"); put("lathunt_case/cpu.cfs_quota_us","10000"); T0=now()+300*MS; pthread_t t[2]; pthread_create(t,0,clerk,0); pthread_create(t+1,0,control,0); for(int i=0;i<2;i++) pthread_join(t[i],0); usleep(50000); if(rmdir("/sys/fs/cgroup/cpu/lathunt_case")) perror("rmdir"); return 0; }
