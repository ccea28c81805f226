// irq_thread: FIFO-80 "axis" (CPU 0) writes a byte to a serial port in loop mode and reads it back; the port's interrupt does
// only wake its thread irq/3-ttyS3 (FIFO 50, CPU 1), which waits there for FIFO-70 "bremser" to compute its 60 ms.
// On PREEMPT_RT, or with threadirqs
#include "markers.h"
#include <termios.h>
#include <sys/ioctl.h>
#define TIOCM_LOOP 0x8000
static ns_t T0; static int port; enum{N=4};
static void*hog(void*x){ who("bremser"); pin(1); fifo(70); until(T0+2*200*MS+20*MS); spin_wall(60*MS); return 0; }
static void*victim(void*x){ who("axis"); pin(0); fifo(80); char c='x';
 for(int i=0;i<N;i++){ until(T0+i*200*MS+30*MS); mark(600,i); if(write(port,&c,1)!=1||read(port,&c,1)!=1) perror("ttyS3"); mark(601,i);} return 0; }
int main(void){ memlock(); port=open("/dev/ttyS3",O_RDWR|O_NOCTTY); struct termios t; if(tcgetattr(port,&t)) perror("ttyS3"); cfmakeraw(&t); cfsetspeed(&t,B115200);
 t.c_cflag|=CLOCAL|CREAD; t.c_cc[VMIN]=1; tcsetattr(port,TCSANOW,&t); int loop=TIOCM_LOOP; if(ioctl(port,TIOCMBIS,&loop)) perror("loop");
 FILE*f=fopen("/proc/irq/3/smp_affinity","w"); if(!f||fputs("2",f)<0||fclose(f)) perror("affinity of the interrupt");
 T0=now()+300*MS; pthread_t p[2]; pthread_create(p,0,hog,0); pthread_create(p+1,0,victim,0); for(int i=0;i<2;i++) pthread_join(p[i],0); return 0; }
