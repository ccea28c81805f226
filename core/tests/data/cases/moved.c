// moved: "admin" (FIFO 85, CPU 0) moves FIFO-80 "control" from CPU 0 to CPU 1, where FIFO-90 "hog" runs 5 ms
#include "markers.h"
static ns_t T0; enum{N=3}; static volatile int vt;
static void*hog(void*x){ who("hog"); pin(1); fifo(90); for(int i=0;i<N;i++){ until(T0+i*60*MS+300*US); if(i==2) spin_wall(5*MS);} return 0; }
static void*admin(void*x){ who("admin"); pin(0); fifo(85); until(T0+120*MS+600*US); cpu_set_t s; CPU_ZERO(&s); CPU_SET(1,&s); if(sched_setaffinity(vt,sizeof s,&s)) perror("aff"); return 0; }
static void*control(void*x){ who("control"); vt=syscall(SYS_gettid); pin(0); fifo(80); for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); spin_cpu(1*MS); mark(601,i);} return 0; }
int main(void){ memlock(); T0=now()+300*MS; pthread_t t[3]; pthread_create(t,0,hog,0); pthread_create(t+1,0,control,0); pthread_create(t+2,0,admin,0); for(int i=0;i<3;i++) pthread_join(t[i],0); return 0; }
