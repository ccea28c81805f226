# A daemon during changes that cannot be made on the machine that runs the tests: a wall clock that is set forward and
# back, a CPU that goes offline and online.
: >said
lathunt monitor --window 2s --listen off --database m.sqlite 2>>said &
monitor=$!
lathunt cyclic -q -c 1 -p 80 -i 20000 -D 600s >/dev/null 2>&1 &
victim=$!
# The guest is emulated: the daemon may take seconds where a real machine takes milliseconds.
says() { until grep -q "$1" said; do sleep 1; done; }
says recording:
sleep 3
date -s "@$(($(date +%s) + 7200))" >/dev/null
says forward
date -s "@$(($(date +%s) - 3600))" >/dev/null
says back
kill -INT $victim || true
echo 0 >/sys/devices/system/cpu/cpu1/online
says offline
echo 1 >/sys/devices/system/cpu/cpu1/online
says 'came online'
sleep 1
set +e
lathunt cyclic -q -c 1 -p 80 -i 20000 -D 3s >/dev/null 2>&1
sleep 2
set -e
kill -TERM $monitor
wait $monitor
lathunt history --database m.sqlite --since 365d --json >history.json
