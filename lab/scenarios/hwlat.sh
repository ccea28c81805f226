# The kernel's tracer as read by our command, and its own output: while our reader is stopped, the lines are read from the
# same instance. The test outside stops the whole machine for 300 ms whenever it reads "freeze me" on the console.
instance='/sys/kernel/tracing/instances/lathunt-hwlat-*'
freeze() { echo "lab: freeze me" >/dev/console; }

lathunt hwlat --detector tracer -D 4s --threshold 1us --json >tracer.json &
reader=$!
until grep -qs hwlat $instance/current_tracer; do usleep 100000; done
freeze
sleep 1
kill -STOP $reader
sleep 2
cat $instance/trace >raw
kill -CONT $reader
wait $reader

# The loop must see it too, on all CPUs at once. Three times, because it starts with its kernel recording, which takes
# seconds here.
lathunt hwlat --detector spin -D 4s --window 1s --width 950ms --threshold 100ms --json >spin.json &
spin=$!
until [ "$(ls /proc/$spin/task | wc -l)" -gt 2 ]; do usleep 100000; done
for again in 1 2 3; do
    usleep 900000
    freeze
done
wait $spin

# Both detectors in sequence and compared, the tracer on all CPUs at once; the machine's settings are restored afterwards.
mode=/sys/kernel/tracing/hwlat_detector/mode
cat $mode >mode-before
lathunt hwlat --detector both --per-cpu -D 2s --window 200ms --width 50ms --threshold 1us --json >both.json &
both=$!
until grep -qs hwlat $instance/current_tracer || [ ! -d /proc/$both ]; do usleep 20000; done
cat $mode >mode-during
wait $both
cat $mode >mode-after
ls /sys/kernel/tracing/instances >instances-after
lathunt hwlat --detector both --per-cpu -c 1 -D 300ms --window 100ms --width 50ms --threshold 10s >both

# Called by the name of the tool that it replaces. An emulated CPU is always late by a microsecond.
ln -s /bin/lathunt /tmp/hwlatdetect
/tmp/hwlatdetect --duration 3 --thresh 1us --window 200ms >hwlatdetect || echo $? >hwlatdetect-status
