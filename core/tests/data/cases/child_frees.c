// child_frees: FIFO-80 "control" (CPU 0) waits for a child (CPU 1) that frees 160 MB as it ends
#include "markers.h"
enum{N=3}; static ns_t T0;
int main(void){ T0=now()+600*MS; pid_t k[N]; for(int i=0;i<N;i++) if(!(k[i]=fork())){ name("child"); pin(1); if(i==2){ char*b=mmap(0,160<<20,PROT_READ|PROT_WRITE,MAP_PRIVATE|MAP_ANONYMOUS,-1,0); madvise(b,160<<20,MADV_NOHUGEPAGE); memset(b,1,160<<20);} until(T0+i*100*MS+50*US); _exit(0);} 
 who("control"); pin(0); fifo(80); for(int i=0;i<N;i++){ until(T0+i*100*MS); mark(600,i); waitpid(k[i],0,0); mark(601,i);} return 0; }
