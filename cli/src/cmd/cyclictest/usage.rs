//! The text of `--help`, and of every refusal.

/// What goes to stdout.
pub fn text() -> String {
    format!("{}{}", super::version_line(), TEXT)
}

const TEXT: &str = "\
Usage:
cyclictest <options>

This is lathunt under the name cyclictest; see also `lathunt cyclic --help`.

-a [CPUSET] --affinity     bind thread n to the n-th CPU (of CPUSET: 0-3,5  all  !0  +0-1)
-A [US]  --aligned[=US]    begin all threads at one moment, each later by US
-b US    --breaktrace=US   stop when a latency exceeds US, and say who
-c CLOCK --clock=CLOCK     0 = CLOCK_MONOTONIC (default), 1 = CLOCK_REALTIME
         --deepest-idle-state=N  disable deeper idle states of the measured CPUs
                           (-1: all), and leave /dev/cpu_dma_latency alone
         --default-system  leave /dev/cpu_dma_latency alone
-d US    --distance=US     distance of the intervals of the threads, default 500
-D TIME  --duration=TIME   length of the run: 60, 30s, 5m, 2h, 1d
-F PATH  --fifo=PATH       named pipe that hands out the status
-h N     --histogram=N     print a histogram of N rows of 1 us after the run
-H N     --histofall=N     the same with a column for all threads
         --histfile=PATH   write the histogram to PATH instead of stdout
-i US    --interval=US     interval of the first thread, default 1000
         --json=PATH       write the result as JSON to PATH (- is stdout)
-l N     --loops=N         number of loops, default 0 (endless)
         --laptop          leave /dev/cpu_dma_latency alone
         --latency=US      value for /dev/cpu_dma_latency, default 0
         --mainaffinity=CPUSET  where the main thread runs
-m       --mlockall        lock memory
-M       --refresh_on_max  redraw only when there is a new maximum
-N       --nsecs           ns instead of us
-o N     --oscope=N        with -v: print the worst of each N samples
-p PRIO  --priority=PRIO   priority of the threads (SCHED_FIFO)
         --policy=NAME     other, normal, batch, idle, fifo, rr
         --priospread      each thread one priority lower than the one before
-q       --quiet           print a summary at the end only
-r       --relative        relative instead of absolute timers
-R       --resolution      check the resolution of the clock
         --secaligned[=US] begin all threads at a full second, plus US
-s       --system          nanosleep instead of clock_nanosleep
-S       --smp             one thread per CPU, all at the same priority
         --spike=US        list samples above US
         --spike-nodes=N   at most N of them, default 1024
         --smi             count system management interrupts (Intel)
-t [N]   --threads[=N]     number of threads, without N one per CPU
         --tracemark       with -b: write a mark into the kernel's trace
-u       --unbuffered      accepted: output is never held back
-v       --verbose         print every sample as thread:cycle:latency
         --dbg_cyclictest  accepted
-x       --posix_timers    POSIX timers instead of clock_nanosleep
Accepted and ignored for old scripts: -n --nanosleep --notrace -B -C -E -f -I -O -P -T -w -W -X
";
