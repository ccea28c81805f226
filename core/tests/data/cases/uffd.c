// uffd: FIFO-80 "control" (CPU 0) touches pages that FIFO-40 "pager" (CPU 1) provides (userfaultfd) after computing 4 ms (3rd)
#include "markers.h"
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
enum{N=3}; static int u; static char*p;
static void*pager(void*x){ who("pager"); pin(1); fifo(40); static char b[4096] __attribute__((aligned(4096))); for(int i=0;i<N;i++){ struct uffd_msg m; if(read(u,&m,sizeof m)<0) perror("read"); spin_cpu(i==2?4*MS:100*US); struct uffdio_copy c={.dst=m.arg.pagefault.address&~4095ull,.src=(uintptr_t)b,.len=4096}; if(ioctl(u,UFFDIO_COPY,&c)) perror("copy"); } return 0; }
int main(void){ u=syscall(SYS_userfaultfd,O_CLOEXEC); struct uffdio_api a={.api=UFFD_API}; if(ioctl(u,UFFDIO_API,&a)) perror("api"); p=mmap(0,N*4096,PROT_READ|PROT_WRITE,MAP_PRIVATE|MAP_ANONYMOUS,-1,0); struct uffdio_register r={.range={(uintptr_t)p,N*4096},.mode=UFFDIO_REGISTER_MODE_MISSING}; if(ioctl(u,UFFDIO_REGISTER,&r)) perror("register"); mlockall(MCL_CURRENT|MCL_ONFAULT); pthread_t t; pthread_create(&t,0,pager,0); who("control"); pin(0); fifo(80); ns_t T0=now()+300*MS; int v=0; for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); v+=((volatile char*)p)[i*4096]; mark(601,i);} pthread_join(t,0); return v; }
