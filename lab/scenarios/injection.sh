# Known disturbances during a hunt: 20 ms is far above what the emulation itself does to a CPU. Each hunt sees one kind
# on CPU 1, three times.
for kind in irqoff preemptoff thread; do
    lathunt hunt -D 4s -c 1 --load none --json -o "$kind" >"$kind.json" 2>"$kind.talk" &
    hunt=$!
    # Calibration comes first; the injection has to fall into the measurement itself.
    sleep 3
    while kill -0 $hunt 2>/dev/null; do
        lathunt inject $kind -c 1 --length 20ms --every 300ms --count 3 --json >>"$kind.injected" 2>>"$kind.talk" || break
    done
    wait $hunt || echo "$kind: hunt ended with $?" >&2
done
