# The threads of the kernel's own timerlat tracer, in a private instance, measured by it and by us.
set +e
tracing=/sys/kernel/tracing
instance=$tracing/instances/lab-timerlat
mkdir $instance
echo 0 >$instance/tracing_on
echo 5000 >$tracing/osnoise/timerlat_period_us
echo timerlat >$instance/current_tracer
lathunt record --tasks 'comm:timerlat*' -D 60s --json -o timerlat >timerlat.json 2>timerlat.talk &
record=$!
# The recording is running once it has saved its run for the first time, after a second.
for try in $(seq 150); do
    [ -e timerlat/run.lathunt.json ] && break
    sleep 0.2
done
echo 1 >$instance/tracing_on
sleep 3
echo 0 >$instance/tracing_on
kill -TERM $record
wait $record
echo $? >timerlat-status
cat $instance/trace >timerlat.trace
echo nop >$instance/current_tracer
rmdir $instance
