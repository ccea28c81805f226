// backlog: FIFO-80 "control" (CPU 0) connects to a Unix socket whose queue of connections is full (3rd) until FIFO-40 "server" (CPU 1) accepts one, after computing 4 ms
#include "markers.h"
#include <sys/un.h>
enum{N=3}; static ns_t T0; static int l; static struct sockaddr_un a={AF_UNIX,"\0lathunt_case"}; static int conn(void){ int s=socket(AF_UNIX,SOCK_STREAM,0); if(connect(s,(void*)&a,sizeof a)) perror("connect"); return s; }
static void*server(void*x){ who("server"); pin(1); fifo(40); for(int i=0;i<N;i++){ until(T0+i*60*MS+200*US); spin_cpu(i==2?4*MS:100*US); accept(l,0,0); } return 0; }
int main(void){ memlock(); l=socket(AF_UNIX,SOCK_STREAM,0); bind(l,(void*)&a,sizeof a); listen(l,0); T0=now()+300*MS; pthread_t t; pthread_create(&t,0,server,0); who("control"); pin(0); fifo(80); conn(); for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); conn(); mark(601,i);} pthread_join(t,0); return 0; }
