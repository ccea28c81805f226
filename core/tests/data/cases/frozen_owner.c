// frozen_owner: FIFO-80 "control" (CPU 0) waits for a mutex with inheritance; its owner "clerk" (ordinary, CPU 1) is frozen (cgroup v1 freezer) by "admin" for 8 ms
#include "markers.h"
#include <sys/stat.h>
static void put(const char*f,const char*t){ char p[128]; snprintf(p,128,"/sys/fs/cgroup/freezer/%s",f); int d=open(p,O_WRONLY); if(d<0||write(d,t,strlen(t))<0) perror(p); close(d); }
enum{N=3}; static ns_t T0; static pthread_mutex_t m;
static void*clerk(void*x){ who("clerk"); pin(1); char t[32]; snprintf(t,32,"%d",(int)syscall(SYS_gettid)); put("lathunt_case/tasks",t); for(int i=0;i<N;i++){ until(T0+i*60*MS-500*US); pthread_mutex_lock(&m); spin_cpu(2*MS); pthread_mutex_unlock(&m);} put("tasks",t); return 0; }
static void*admin(void*x){ who("admin"); pin(0); fifo(85); until(T0+2*60*MS-200*US); put("lathunt_case/freezer.state","FROZEN"); until(T0+2*60*MS+8300*US); put("lathunt_case/freezer.state","THAWED"); return 0; }
static void*control(void*x){ who("control"); pin(0); fifo(80); for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); pthread_mutex_lock(&m); mark(601,i); pthread_mutex_unlock(&m);} return 0; }
int main(void){ memlock(); mkdir("/sys/fs/cgroup/freezer/lathunt_case",0755); pthread_mutexattr_t a; pthread_mutexattr_init(&a); pthread_mutexattr_setprotocol(&a,PTHREAD_PRIO_INHERIT); pthread_mutex_init(&m,&a); T0=now()+300*MS; pthread_t t[3]; pthread_create(t,0,clerk,0); pthread_create(t+1,0,admin,0); pthread_create(t+2,0,control,0); for(int i=0;i<3;i++) pthread_join(t[i],0); usleep(50000); if(rmdir("/sys/fs/cgroup/freezer/lathunt_case")) perror("rmdir"); return 0; }
