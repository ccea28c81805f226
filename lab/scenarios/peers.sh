# The kernel's own latency tracers, each in an instance of its own, as hunts use them: never in the top-level buffer.
tracing=/sys/kernel/tracing
cat $tracing/available_tracers >available

# peer NAME SECONDS: runs a tracer and keeps its text.
peer() {
    instance=$tracing/instances/lab
    mkdir $instance
    echo "$1" >$instance/current_tracer
    cat $instance/current_tracer >"$1.current"
    echo 1 >$instance/tracing_on
    sleep "$2"
    echo 0 >$instance/tracing_on
    cat $instance/trace >"$1.trace"
    echo nop >$instance/current_tracer
    rmdir $instance
}

# Every 5 ms: at its 1 ms an emulated CPU on a busy host would do nothing else.
echo 5000 >$tracing/osnoise/timerlat_period_us
peer timerlat 2
echo 1 >$tracing/tracing_thresh
peer hwlat 3
