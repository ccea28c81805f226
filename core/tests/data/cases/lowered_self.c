// lowered_self: FIFO-80 "control" (CPU 0) sets itself to FIFO 40 and computes 2 ms; FIFO-60 "hog" (CPU 0) runs 5 ms in between
#include "markers.h"
enum{N=3}; static ns_t T0;
int main(void){ memlock(); T0=now()+300*MS; pid_t k;
 if(!(k=fork())){ who("hog"); pin(0); fifo(60); for(int i=0;i<N;i++){ until(T0+i*60*MS+500*US); spin_cpu(i==2?5*MS:20*US);} _exit(0);}
 who("control"); pin(0); fifo(80); for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); fifo(40); spin_cpu(2*MS); fifo(80); mark(601,i);} waitpid(k,0,0); return 0; }
