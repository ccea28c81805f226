# A recording of the running system with known disturbances of a cyclic thread in it: 20 ms is far above what the
# emulation itself does to a CPU.
set +e
lathunt cyclic -c 1 -p 80 -i 2000 -D 14s -q >/dev/null 2>&1 &
lathunt record -c 1 -D 9s --threshold 10ms --json -o injected >injected.json 2>injected.talk &
record=$!
sleep 3
for kind in preemptoff thread; do
    lathunt inject $kind -c 1 --length 20ms --every 300ms --count 3 --json >"$kind.injected" 2>>injected.talk
done
wait $record
echo $? >injected-status

# The same threads seen by the kernel's own timerlat tracer, in an instance of its own, and by us.
tracing=/sys/kernel/tracing
instance=$tracing/instances/lab-record
mkdir $instance
echo 5000 >$tracing/osnoise/timerlat_period_us
echo timerlat >$instance/current_tracer
echo 1 >$instance/tracing_on
sleep 1
lathunt record --tasks 'comm:timerlat*' -D 4s --json -o timerlat >timerlat.json 2>timerlat.talk
echo $? >timerlat-status
echo 0 >$instance/tracing_on
cat $instance/trace >timerlat.trace
echo nop >$instance/current_tracer
rmdir $instance
