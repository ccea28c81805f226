// mq_full: FIFO-80 "sender" (CPU 0) sends to a POSIX queue that is full; its reader (CPU 1) is behind FIFO-70 "hog" for 6 ms the third time
#include "markers.h"
#include <mqueue.h>
static mqd_t q; static ns_t T0; enum{N=3};
static void*reader(void*x){ who("reader"); pin(1); fifo(50); char b[64]; for(int i=0;i<N;i++){ until(T0+i*60*MS+200*US); if(mq_receive(q,b,64,0)<0) perror("rx"); } return 0; }
static void*hog(void*x){ who("hog"); pin(1); fifo(70); for(int i=0;i<N;i++){ until(T0+i*60*MS+100*US); if(i==2) spin_wall(6*MS);} return 0; }
static void*sender(void*x){ who("sender"); pin(0); fifo(80); char b[64]={0}; mq_send(q,b,8,0); for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); if(mq_send(q,b,8,0)) perror("tx"); mark(601,i);} return 0; }
int main(void){ memlock(); struct mq_attr a={.mq_maxmsg=1,.mq_msgsize=64}; mq_unlink("/lathunt"); q=mq_open("/lathunt",O_CREAT|O_RDWR,0600,&a); if(q<0) perror("mq"); T0=now()+300*MS; pthread_t t[3]; pthread_create(t,0,reader,0); pthread_create(t+1,0,hog,0); pthread_create(t+2,0,sender,0); for(int i=0;i<3;i++) pthread_join(t[i],0); mq_unlink("/lathunt"); return 0; }
