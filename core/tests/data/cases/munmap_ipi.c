// ipi2: FIFO-80 "releaser" (CPU 0) munmaps 64 MB in 400 pieces between 600 and 601; threads of its process run on CPU 1
#include "markers.h"
static volatile int stop;
static void*sp(void*x){ who("spinner"); pin(1); while(!stop); return 0;}
int main(void){ pthread_t t; pthread_create(&t,0,sp,0); who("releaser"); pin(0); fifo(80); usleep(50000); for(int i=0;i<3;i++){ usleep(10000); int n=i==2?400:4; char*p=mmap(0,n*65536,PROT_READ|PROT_WRITE,MAP_PRIVATE|MAP_ANONYMOUS,-1,0); for(int k=0;k<n*65536;k+=4096)p[k]=1; mark(600,i); for(int k=0;k<n;k++) munmap(p+k*65536,65536); mark(601,i);} stop=1; pthread_join(t,0); return 0; }
