// fork_held: FIFO-80 "control" (CPU 0) waits for a mutex whose "owner" (CPU 1) forks with 192 MB in memory while it holds it
#include "markers.h"
#include <sys/eventfd.h>
#include <sys/epoll.h>
enum{N=3}; static ns_t T0; static pthread_mutex_t m; static int efd;
static void*sleeper(void*a){ (void)a; name("sleeper"); int ep=epoll_create1(0); struct epoll_event ev={.events=EPOLLIN}; epoll_ctl(ep,EPOLL_CTL_ADD,efd,&ev); epoll_wait(ep,&ev,1,-1); for(;;) pause(); return 0; }
static void herd(void){ efd=eventfd(0,0); pthread_attr_t at; pthread_attr_init(&at); pthread_attr_setstacksize(&at,32768); for(int i=0;i<300;i++){ pthread_t t; pthread_create(&t,&at,sleeper,0);} }
static void*owner(void*a){ (void)a; who("owner"); char*big=mmap(0,192<<20,PROT_READ|PROT_WRITE,MAP_PRIVATE|MAP_ANONYMOUS,-1,0); madvise(big,192<<20,MADV_NOHUGEPAGE); memset(big,1,192<<20); pin(1); for(int i=0;i<N;i++){ until(T0+i*150*MS-100*US); pthread_mutex_lock(&m); if(i==2) { pid_t x=fork(); if(!x) _exit(0); waitpid(x,0,WNOHANG); } else spin_wall(300*US); pthread_mutex_unlock(&m);} return 0;}
int main(void){ pthread_mutex_init(&m,0); T0=now()+900*MS; pthread_t t; pthread_create(&t,0,owner,0);
 who("control"); pin(0); fifo(80); for(int i=0;i<N;i++){ until(T0+i*150*MS); mark(600,i); pthread_mutex_lock(&m); pthread_mutex_unlock(&m); mark(601,i);} pthread_join(t,0); _exit(0); }
