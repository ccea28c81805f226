// moved_early: "admin" (CPU 0) moves FIFO-60 "control" (computing 4 ms on CPU 1) by sched_setaffinity to CPU 0 (3rd), where it runs on; 1 ms later FIFO-70 "hogger" runs there for 5 ms, CPU 1 being free
#include "markers.h"
enum{N=3}; static ns_t T0; static pid_t ct; static pthread_t c;
static void*hogger(void*x){ who("hogger"); pin(0); fifo(70); until(T0+2*60*MS+2*MS); spin_cpu(5*MS); return 0; }
static void*admin(void*x){ who("admin"); pin(0); fifo(75); until(T0+2*60*MS+1*MS); cpu_set_t s; CPU_ZERO(&s); CPU_SET(0,&s); sched_setaffinity(ct,sizeof s,&s); return 0; }
static void*control(void*x){ who("control"); ct=syscall(SYS_gettid); pin(1); fifo(60); for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); spin_cpu(4*MS); mark(601,i);} return 0; }
int main(void){ memlock(); T0=now()+300*MS; pthread_t t[2]; pthread_create(&c,0,control,0); pthread_create(t,0,hogger,0); pthread_create(t+1,0,admin,0); pthread_join(c,0); for(int i=0;i<2;i++) pthread_join(t[i],0); return 0; }
