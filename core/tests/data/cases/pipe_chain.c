// pipe_chain: FIFO-80 "control" (CPU 0) asks "alpha" (FIFO-50, CPU 1) over pipes, which asks "beta" (FIFO-45, CPU 1), which asks "gamma" (ordinary, CPU 1); gamma is preempted by FIFO-40 "thresher" for 5 ms (3rd)
#include "markers.h"
enum{N=3}; static ns_t T0; static int a[2],A[2],b[2],B[2],g[2],G[2];
static void*alpha(void*x){ who("alpha"); pin(1); fifo(50); char c; for(int i=0;i<N;i++){ read(a[0],&c,1); write(b[1],"x",1); read(B[0],&c,1); write(A[1],"x",1);} return 0; }
static void*beta(void*x){ who("beta"); pin(1); fifo(45); char c; for(int i=0;i<N;i++){ read(b[0],&c,1); write(g[1],"x",1); read(G[0],&c,1); write(B[1],"x",1);} return 0; }
static void*gamma_(void*x){ who("gamma"); pin(1); char c; for(int i=0;i<N;i++){ read(g[0],&c,1); spin_cpu(1*MS); write(G[1],"x",1);} return 0; }
static void*thresher(void*x){ who("thresher"); pin(1); fifo(40); until(T0+2*60*MS+400*US); spin_cpu(5*MS); return 0; }
static void*control(void*x){ who("control"); pin(0); fifo(80); char c; for(int i=0;i<N;i++){ until(T0+i*60*MS); mark(600,i); write(a[1],"x",1); read(A[0],&c,1); mark(601,i);} return 0; }
int main(void){ memlock(); pipe(a);pipe(A);pipe(b);pipe(B);pipe(g);pipe(G); T0=now()+300*MS; pthread_t t[5]; pthread_create(t,0,alpha,0); pthread_create(t+1,0,beta,0); pthread_create(t+2,0,gamma_,0); pthread_create(t+3,0,thresher,0); pthread_create(t+4,0,control,0); for(int i=0;i<5;i++) pthread_join(t[i],0); return 0; }
