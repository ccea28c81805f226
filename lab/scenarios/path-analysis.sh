# A path analysis beside the kernel's own tracer of the same sections, and a thread of the highest priority whose latencies the
# bound must cover.
set +e
tracing=/sys/kernel/tracing
# Only length and place: tracing all called functions would be far slower.
echo 0 >$tracing/options/function-trace
echo preemptirqsoff >$tracing/current_tracer
echo 1 >$tracing/tracing_on
lathunt record --path-analysis -D 4s --threshold 50ms --json -o run >run.json 2>record-talk &
record=$!
# It is running once it has saved its run for the first time, after a second.
for try in $(seq 100); do
    ls run/*.lathunt.json* >/dev/null 2>&1 && break
    usleep 50000
done
echo 0 >$tracing/tracing_max_latency
lathunt cyclic -c 0 -p 98 -i 2ms -D 150ms --json -o cyclic >cyclic.json 2>talk
cat $tracing/tracing_max_latency >max
wait $record
echo $? >record-status
echo nop >$tracing/current_tracer
lathunt bound run --json >bound.json 2>>talk
lathunt bound run >bound.txt 2>>talk
