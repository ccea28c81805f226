# CPUs are isolated by a cgroup v2 partition and restored: after apply, after a kill -9 at six places of the journal, and
# with a CPU that goes offline in between.
mount -t cgroup2 none /sys/fs/cgroup
journal=/run/lathunt/isolate/knobs.journal
cpu1=/sys/devices/system/cpu/cpu1/online
# Programs with an affinity: all CPUs, CPU 0, CPU 1.
for mask in 3 1 2; do
    taskset $mask sleep 600 &
    echo $! >>sleepers
done

snapshot() {
    for file in /proc/irq/*/smp_affinity_list /proc/irq/default_smp_affinity \
        /sys/devices/virtual/workqueue/cpumask /sys/devices/virtual/workqueue/*/cpumask \
        /sys/fs/cgroup/cgroup.subtree_control; do
        [ -r "$file" ] && echo "$file $(cat "$file")"
    done
    for directory in /sys/fs/cgroup/*/; do echo "$directory is there"; done
    grep -H Cpus_allowed_list /proc/[0-9]*/task/[0-9]*/status 2>/dev/null | tr ':\t' '  '
}

# Threads whose CPU only the kernel decides: by flag (PF_NO_SETAFFINITY), or the CPU of their interrupt. Some end before
# they are checked.
cat /proc/[0-9]*/stat 2>/dev/null | awk '$2 ~ /^\(irq\// { print $1; next } { pid = $1; sub(/.*\) /, ""); if (int($7 / 67108864) % 2) print pid }' >bound
snapshot >before
lathunt isolate plan -c 1 >plan
lathunt isolate apply -c 1 >applied
wc -l <$journal >lines-of-all
cat /sys/fs/cgroup/lathunt-isolated/cpuset.cpus.partition >partition
lathunt isolate run -q -- sh -c 'cat /proc/self/cgroup; grep Cpus_allowed_list /proc/self/status' >inside
snapshot >during
lathunt isolate restore --patience 1ms >restored
snapshot >after

for lines in 2 4 6 9 13 18; do
    lathunt isolate apply -c 1 -q 2>>talk &
    victim=$!
    while kill -0 $victim 2>/dev/null && [ "$(wc -l 2>/dev/null <$journal || echo 0)" -lt $lines ]; do :; done
    kill -9 $victim 2>/dev/null || true
    wait $victim 2>/dev/null || true
    wc -l <$journal >>killed-after
    lathunt isolate restore --patience 1ms >>killed-restored
    snapshot >after-kill-$lines
done

# Offline before: refused. Offline in between: changes that need the CPU wait and are restored when it is online again, also
# after a second try that came too early.
echo 0 >$cpu1
lathunt isolate apply -c 1 2>offline-apply || echo $? >offline-apply-status
# A recording of events that begins without the CPU.
lathunt trace -D 1s -o /tmp/offline >offline-trace 2>&1 || [ $? = 3 ] || echo failed >>offline-trace
echo 1 >$cpu1
lathunt isolate apply -c 1 >>applied
echo 0 >$cpu1
lathunt isolate restore --patience 1ms >offline-restore || echo $? >offline-restore-status
lathunt isolate restore --patience 1ms >offline-again || echo $? >offline-again-status
echo 1 >$cpu1
lathunt isolate restore --patience 1ms >online-restore
snapshot >after-offline
lathunt isolate status >status-at-end
for pid in $(cat sleepers); do kill "$pid"; done
