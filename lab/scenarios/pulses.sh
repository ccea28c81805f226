# A hunt with known disturbances of its measuring threads in it: 100 ms is far above what the emulation itself does to a CPU,
# also when its host is busy. Few worst cases are kept: the evidence of a pulse must be read before the next one comes.
set +e
lathunt hunt -D 90s --load none --peaks 12 --json -o pulses >run.json 2>told &
hunt=$!
# Its last message before it measures.
until grep -qs '^load: ' told || [ ! -d /proc/$hunt ]; do usleep 100000; done
sleep 1
for kind in irqoff preemptoff thread; do
    lathunt inject $kind -c 1 --length 100ms --every 1200ms --count 4 --json >"$kind.injected" 2>>told
done
kill -INT $hunt
wait $hunt
echo $? >hunt-status
