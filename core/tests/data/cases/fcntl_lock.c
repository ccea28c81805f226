// fcntl_lock: FIFO-80 "control" (CPU 0) waits in fcntl(F_SETLKW); the holder, ordinary process "editor" (CPU 1), holds the lock 6 ms while it sleeps 3 ms and is then kept off the CPU 4 ms by FIFO-60 "mixer"
#include "markers.h"
enum{N=3}; static ns_t T0;
int main(void){ memlock(); int f=open("/dev/shm/lathunt_lk",O_RDWR|O_CREAT,0600); T0=now()+300*MS; pid_t k[2];
 struct flock l={.l_type=F_WRLCK,.l_whence=SEEK_SET,.l_start=0,.l_len=1}, u={.l_type=F_UNLCK,.l_whence=SEEK_SET,.l_start=0,.l_len=1};
 if(!(k[0]=fork())){ who("editor"); pin(1); for(int i=0;i<N;i++){ until(T0+i*60*MS-1*MS); fcntl(f,F_SETLKW,&l); until(T0+i*60*MS+(i==2?2*MS:200*US)); spin_cpu(100*US); fcntl(f,F_SETLK,&u);} _exit(0);}
 if(!(k[1]=fork())){ who("mixer"); pin(1); fifo(60); until(T0+2*60*MS+1800*US); spin_cpu(4*MS); _exit(0);}
 who("control"); pin(0); fifo(80); for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); fcntl(f,F_SETLKW,&l); mark(601,i); fcntl(f,F_SETLK,&u);} for(int i=0;i<2;i++) waitpid(k[i],0,0); unlink("/dev/shm/lathunt_lk"); return 0; }
