# The kernel's tracer as our command reads it, and as it prints: while our reader stands still, the lines are read from
# the same instance.
instance='/sys/kernel/tracing/instances/lathunt-hwlat-*'
# The watch has begun: the tracer is set, or there is a loop on each CPU.
await_watch() {
    until grep -qs hwlat $instance/current_tracer || [ "$(ls /proc/$1/task | wc -l)" -gt 2 ]; do usleep 100000; done
    sleep 1
}

lathunt hwlat --detector tracer -D 5s --threshold 1us --json >tracer.json &
reader=$!
await_watch $reader
kill -STOP $reader
sleep 2
cat $instance/trace >raw
kill -CONT $reader
wait $reader

# The judge outside stops the whole machine for 300 ms when it reads this line on the console. Both detectors must see
# it: the tracer, which watches 19 of 20 ms, and the loop. Three times, because the loop begins when its record of the
# kernel does, which takes seconds here.
for detector in tracer spin; do
    lathunt hwlat --detector $detector -D 5s --window 1s --width 950ms --threshold 100ms --json >frozen-$detector.json &
    watcher=$!
    await_watch $watcher
    for again in 1 2 3; do
        echo "lab: freeze me" >/dev/console
        usleep 1200000
    done
    wait $watcher
done

# One after the other and compared, the tracer on all CPUs at once; the machine is as before then.
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

# Called as the tool that it replaces. An emulated CPU is always late by a microsecond.
ln -s /bin/lathunt /tmp/hwlatdetect
/tmp/hwlatdetect --duration 3 --thresh 1us --window 200ms >hwlatdetect || echo $? >hwlatdetect-status
