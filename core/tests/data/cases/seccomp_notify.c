// seccomp_notify: getppid of FIFO-80 "guarded" (CPU 0) is answered by its supervisor "warden" (CPU 1), which computes 4 ms first the third time
#include "markers.h"
#include <linux/seccomp.h>
#include <linux/filter.h>
#include <sys/ioctl.h>
#include <stddef.h>
static volatile int fd=-1; static ns_t T0; enum{N=3};
static void*warden(void*x){ who("warden"); pin(1); fifo(50); while(fd<0) usleep(1000); for(int i=0;i<N;i++){ struct seccomp_notif n; memset(&n,0,sizeof n); if(ioctl(fd,SECCOMP_IOCTL_NOTIF_RECV,&n)) perror("recv"); spin_cpu(i==2?4*MS:100*US); struct seccomp_notif_resp r={.id=n.id,.val=7}; if(ioctl(fd,SECCOMP_IOCTL_NOTIF_SEND,&r)) perror("send"); } return 0; }
static void*guarded(void*x){ who("guarded"); pin(0); fifo(80); prctl(PR_SET_NO_NEW_PRIVS,1,0,0,0); struct sock_filter f[]={BPF_STMT(BPF_LD|BPF_W|BPF_ABS,offsetof(struct seccomp_data,nr)),BPF_JUMP(BPF_JMP|BPF_JEQ|BPF_K,SYS_getppid,0,1),BPF_STMT(BPF_RET|BPF_K,SECCOMP_RET_USER_NOTIF),BPF_STMT(BPF_RET|BPF_K,SECCOMP_RET_ALLOW)}; struct sock_fprog p={4,f}; fd=syscall(SYS_seccomp,SECCOMP_SET_MODE_FILTER,SECCOMP_FILTER_FLAG_NEW_LISTENER,&p); if(fd<0) perror("seccomp"); for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); syscall(SYS_getppid); mark(601,i);} return 0; }
int main(void){ memlock(); T0=now()+300*MS; pthread_t t[2]; pthread_create(t,0,warden,0); pthread_create(t+1,0,guarded,0); for(int i=0;i<2;i++) pthread_join(t[i],0); return 0; }
