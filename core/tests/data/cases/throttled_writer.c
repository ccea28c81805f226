// throttled_writer: "writer" (CPU 0) dirties pages of a file beyond vm.dirty_bytes (set low and restored by the recording): balance_dirty_pages makes it sleep
#include "markers.h"
enum{N=3};
int main(void){ who("writer"); pin(0); const char*f="/tmp/lathunt_dirty"; int fd=open(f,O_CREAT|O_RDWR|O_TRUNC,0600); static char b[1<<16]; ns_t T0=now()+300*MS; for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); for(int k=0;k<(i==2?200:1);k++) if(write(fd,b,sizeof b)<0) perror("w"); mark(601,i);} close(fd); unlink(f); return 0; }
