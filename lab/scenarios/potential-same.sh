# Potential latencies of a short time, and the events they are computed from, recorded by ftrace in the top-level buffer,
# which no other program uses in this guest.
set +e
tracing=/sys/kernel/tracing
# Four in five events are of interrupts that the kernel turns off to report the fifth, in two adjacent functions: left out,
# so that the buffer also holds events before the recording's last read, since it is stopped late.
address() { grep " $1\$" /proc/kallsyms | cut -d' ' -f1; }
text=0x$(address _stext)
from=$((0x$(address ct_irq_enter_irqson) - text))
behind=$(sort /proc/kallsyms | grep -A1 ' ct_irq_exit_irqson$' | tail -n 1 | cut -d' ' -f1)
others="caller_offs < $from || caller_offs >= $((0x$behind - text))"
echo "$others" >$tracing/events/preemptirq/irq_disable/filter
echo "$others" >$tracing/events/preemptirq/irq_enable/filter
echo 8000 >$tracing/buffer_size_kb
echo mono >$tracing/trace_clock
echo 1 >$tracing/events/preemptirq/enable
echo 1 >$tracing/events/power/cpu_idle/enable
(
    until [ -e run/run.lathunt.json ]; do usleep 50000; done
    echo 0 >$tracing/tracing_on
) &
lathunt record --potential irqsoff,preemptoff,preemptirqsoff --latency-hist hist -D 200ms --json -o run >run.json 2>talk
echo $? >record-status
wait
cat $tracing/trace >trace
