# A known disturbance during a hunt: 20 ms is far above what the emulation itself does to a CPU. The hunt sees it on CPU 1,
# three times and more. (The other kinds: matrix.sh.)
lathunt hunt -D 4s -c 1 --load none --json -o irqoff >irqoff.json 2>irqoff.talk &
hunt=$!
# Calibration comes first; the injection has to fall into the measurement itself.
sleep 3
while kill -0 $hunt 2>/dev/null; do
    lathunt inject irqoff -c 1 --length 20ms --every 300ms --count 3 --json >>irqoff.injected 2>>irqoff.talk || break
done
wait $hunt || echo "irqoff: hunt ended with $?" >&2
