# What a path analysis costs beside the kernel's own tracer of the same sections: the time of 20,000 one-byte writes and reads of
# a pipe. Time is virtual here, and advances with the instructions that the guest executes.
set +e
tracing=/sys/kernel/tracing
cat >work <<'END'
begin=$(cut -d' ' -f1 /proc/uptime)
dd if=/dev/zero bs=1 count=20000 2>/dev/null | dd of=/dev/null bs=1 2>/dev/null
echo "$1 $begin $(cut -d' ' -f1 /proc/uptime)" >>times
END
sh work none
lathunt record --tasks rt -o plain -- sh work record >/dev/null 2>talk
lathunt record --path-analysis --tasks rt --json -o run -- sh work path >run.json 2>>talk
echo 0 >$tracing/options/function-trace
echo preemptirqsoff >$tracing/current_tracer
echo 1 >$tracing/tracing_on
sh work tracer
echo nop >$tracing/current_tracer
sh work none
