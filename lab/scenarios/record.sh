# A recording of the running system with known disturbances of a cyclic thread in it: 100 ms is far above what the
# emulation itself does to a CPU, also when its host is busy.
set +e
# begun DIRECTORY: waits until a recording runs, which saves its run after a second.
begun() {
    for try in $(seq 150); do
        [ -e "$1/run.lathunt.json" ] && return
        sleep 0.2
    done
    echo "$1: the recording did not begin" >&2
}
lathunt cyclic -c 1 -p 80 -i 2000 -D 60s -q >/dev/null 2>&1 &
cyclic=$!
lathunt record -c 1 -D 60s --threshold 50ms --peaks 24 --json -o injected >injected.json 2>injected.talk &
record=$!
begun injected
for kind in irqoff preemptoff thread; do
    lathunt inject $kind -c 1 --length 100ms --every 400ms --count 3 --json >"$kind.injected" 2>>injected.talk
done
kill -TERM $record
wait $record
echo $? >injected-status
kill -TERM $cyclic

# The same threads seen by the kernel's own timerlat tracer, in an instance of its own, and by us.
tracing=/sys/kernel/tracing
instance=$tracing/instances/lab-record
mkdir $instance
echo 0 >$instance/tracing_on
echo 5000 >$tracing/osnoise/timerlat_period_us
echo timerlat >$instance/current_tracer
lathunt record --tasks 'comm:timerlat*' -D 60s --json -o timerlat >timerlat.json 2>timerlat.talk &
record=$!
begun timerlat
echo 1 >$instance/tracing_on
sleep 3
echo 0 >$instance/tracing_on
kill -TERM $record
wait $record
echo $? >timerlat-status
cat $instance/trace >timerlat.trace
echo nop >$instance/current_tracer
rmdir $instance
