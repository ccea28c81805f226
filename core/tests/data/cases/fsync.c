// fs: FIFO-80 "logger" writes and fsyncs between 600 and 601
#include "markers.h"
int main(void){ memlock(); who("logger"); pin(1); fifo(80); int fd=open("fs.data",O_RDWR|O_CREAT,0600); static char b[65536]; for(int i=0;i<3;i++){ usleep(20000); mark(600,i); if(write(fd,b,i==2?65536:1)<0) perror("w"); fsync(fd); mark(601,i);} return 0; }
