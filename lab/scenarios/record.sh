# A recording of the running system with known disturbances of a cyclic thread in it: 100 ms is far above what the
# emulation itself does to a CPU, also when its host is busy.
set +e
lathunt cyclic -c 1 -p 80 -i 2000 -D 60s -q >/dev/null 2>&1 &
cyclic=$!
lathunt record -c 1 -D 60s --threshold 50ms --worst 24 --json -o injected >injected.json 2>injected.talk &
record=$!
# It is running once it has saved its run for the first time, after a second.
for try in $(seq 150); do
    [ -e injected/run.lathunt.json ] && break
    sleep 0.2
done
# NMIs for CPU 1, sent by CPU 0: the kernel requests a backtrace.
taskset 1 sh -c 'for i in $(seq 12); do echo l >/proc/sysrq-trigger; sleep 0.2; done' &
for kind in irqoff preemptoff thread; do
    lathunt inject $kind -c 1 --length 100ms --every 400ms --count 3 --json >"$kind.injected" 2>>injected.talk
done
kill -TERM $record
wait $record
echo $? >injected-status
kill -TERM $cyclic
