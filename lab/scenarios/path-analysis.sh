# A path analysis beside the kernel's own tracer of the same sections, and a thread of the highest priority whose latencies the
# bound must cover.
set +e
tracing=/sys/kernel/tracing
# Only length and place: tracing all called functions would be far slower.
echo 0 >$tracing/options/function-trace
echo preemptirqsoff >$tracing/current_tracer
echo 1 >$tracing/tracing_on
# Within the recording: attaching its programs takes longer than all that is to be seen.
cat >load <<END
echo 0 >$tracing/tracing_max_latency
lathunt cyclic -c 0 -p 98 -i 2ms -D 300ms --json -o cyclic.json >/dev/null
cat $tracing/tracing_max_latency >max
END
lathunt record --path-analysis --tasks rt --threshold 50ms --json -o run -- sh load >run.json 2>talk
echo $? >record-status
echo nop >$tracing/current_tracer
lathunt bound run --json >bound.json 2>>talk
lathunt bound run >bound.txt 2>>talk
