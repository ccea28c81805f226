// cow: FIFO-80 "writer" (CPU 0) writes one byte to each of 400 pages that it shares with a forked child the third time
#include "markers.h"
enum{N=3,PAGES=400};
int main(void){ who("writer"); pin(0); fifo(80); char*m=mmap(0,PAGES*4096,PROT_READ|PROT_WRITE,MAP_PRIVATE|MAP_ANONYMOUS,-1,0); madvise(m,PAGES*4096,MADV_NOHUGEPAGE); memset(m,1,PAGES*4096); ns_t T0=now()+300*MS; for(int i=0;i<N;i++){ pid_t p=0; if(i==2&&!(p=fork())){ name("child"); pin(1); pause(); _exit(0);} until(T0+i*60*MS); mark(600,i); for(int k=0;k<PAGES;k++) m[k*4096L]=i; mark(601,i); if(p){ kill(p,9); waitpid(p,0,0);} } return 0; }
