# Long ones are injected, and detected by us and by the kernel's own tracers. An emulated CPU whose host is busy is late by
# 100 ms by itself: these are longer. Then a CPU goes offline and comes back.
set +e
tracing=/sys/kernel/tracing
potential=irqsoff,preemptoff,preemptirqsoff
recording() {
    lathunt record -c 1 --potential $potential -D 90s --threshold 50ms --json -o $1 >$1.json 2>$1.talk &
    record=$!
    # It is running once it has saved its run for the first time, after a second.
    for try in $(seq 150); do
        [ -e $1/run.lathunt.json ] && break
        sleep 0.2
    done
}
over() {
    kill -TERM $record
    wait $record
    echo $? >$1-status
}
# CPU 1 only. Only length and place: tracing all called functions would be far slower.
echo 2 >$tracing/tracing_cpumask
echo 0 >$tracing/options/function-trace
for pair in irqsoff:irqoff preemptoff:preemptoff preemptirqsoff:irqoff; do
    tracer=${pair%:*}
    echo 0 >$tracing/tracing_on
    echo $tracer >$tracing/current_tracer
    recording $tracer
    echo 0 >$tracing/tracing_max_latency
    echo 1 >$tracing/tracing_on
    lathunt inject ${pair#*:} -c 1 --length 300ms --every 900ms --count 2 --json >$tracer.injected 2>>$tracer.talk
    echo 0 >$tracing/tracing_on
    cat $tracing/tracing_max_latency >$tracer.max
    cat $tracing/trace >$tracer.trace
    over $tracer
    echo nop >$tracing/current_tracer
done
recording offline
echo 0 >/sys/devices/system/cpu/cpu1/online
sleep 3
echo 1 >/sys/devices/system/cpu/cpu1/online
sleep 1
over offline
