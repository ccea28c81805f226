# A path analysis while a long section with interrupts off is injected, which the kernel's own tracer sees too. An emulated CPU
# whose host is busy is late by 100 ms by itself: these are longer.
set +e
tracing=/sys/kernel/tracing
echo 2 >$tracing/tracing_cpumask
echo 0 >$tracing/options/function-trace
echo preemptirqsoff >$tracing/current_tracer
echo 1 >$tracing/tracing_on
lathunt record -c 1 --path-analysis -D 90s --threshold 50ms --json -o run >run.json 2>record-talk &
record=$!
for try in $(seq 150); do
    ls run/*.lathunt.json* >/dev/null 2>&1 && break
    sleep 0.2
done
echo 0 >$tracing/tracing_max_latency
lathunt inject irqoff -c 1 --length 300ms --every 900ms --count 2 --json >injected 2>talk
echo 0 >$tracing/tracing_on
cat $tracing/tracing_max_latency >max
cat $tracing/trace >trace
kill -TERM $record
wait $record
echo $? >record-status
echo nop >$tracing/current_tracer
lathunt bound run --json >bound.json 2>>talk
lathunt bound run >bound.txt 2>>talk
