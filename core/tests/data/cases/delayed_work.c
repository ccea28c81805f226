// delayed_work: FIFO-80 "watcher" (CPU 0) waits for a message that a link lost its carrier, which "plug" (CPU 1) pulls; the kernel
// sends it from the delayed work item linkwatch_event, at most once a second. All in a network namespace of its own.
#define _GNU_SOURCE
#include "markers.h"
#include <linux/if.h>
#include <linux/if_tun.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/ioctl.h>
static ns_t T0; static int tun,nl; enum{N=3};
static void carrier(int on){ if(ioctl(tun,TUNSETCARRIER,&on)) perror("carrier"); }
static void*plug(void*x){ who("plug"); pin(1); for(int i=0;i<N;i++){ until(T0+i*600*MS); carrier(0); until(T0+i*600*MS+ (i==2?0:300*MS)); if(i<2) carrier(1);} return 0; }
static void*watch(void*x){ who("watcher"); pin(0); fifo(80); static char m[65536]; for(int i=0;i<N;i++){ until(T0+i*600*MS-5*MS); while(recv(nl,m,sizeof m,MSG_DONTWAIT)>0); mark(600,i); if(recv(nl,m,sizeof m,0)<0) perror("recv"); mark(601,i);} return 0; }
int main(void){ if(unshare(CLONE_NEWNET)) perror("unshare"); tun=open("/dev/net/tun",O_RDWR); struct ifreq r={0}; strcpy(r.ifr_name,"cable"); r.ifr_flags=IFF_TAP|IFF_NO_PI; if(ioctl(tun,TUNSETIFF,&r)) perror("tun");
 int s=socket(AF_INET,SOCK_DGRAM,0); r.ifr_flags=IFF_UP; if(ioctl(s,SIOCSIFFLAGS,&r)) perror("up"); carrier(1); sleep(2);
 nl=socket(AF_NETLINK,SOCK_RAW,NETLINK_ROUTE); struct sockaddr_nl a={.nl_family=AF_NETLINK,.nl_groups=RTMGRP_LINK}; if(bind(nl,(void*)&a,sizeof a)) perror("bind");
 memlock(); T0=now()+300*MS; pthread_t t[2]; pthread_create(t,0,plug,0); pthread_create(t+1,0,watch,0); for(int i=0;i<2;i++) pthread_join(t[i],0); return 0; }
