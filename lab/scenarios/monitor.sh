# A daemon through what cannot be done to the machine that runs the tests: a wall clock that is set forward and back, a
# CPU that goes and comes.
lathunt monitor --window 2s --listen off --database m.sqlite 2>said &
monitor=$!
lathunt cyclic -q -c 1 -p 80 -i 2000 -D 60s >/dev/null 2>&1 &
victim=$!
sleep 6
date -s "@$(($(date +%s) + 7200))" >/dev/null
sleep 5
date -s "@$(($(date +%s) - 3600))" >/dev/null
sleep 5
kill -INT $victim
sleep 1
set +e
echo 0 >/sys/devices/system/cpu/cpu1/online
sleep 3
echo 1 >/sys/devices/system/cpu/cpu1/online
sleep 2
lathunt cyclic -q -c 1 -p 80 -i 2000 -D 3s >/dev/null 2>&1
sleep 2
set -e
kill -TERM $monitor
wait $monitor
lathunt history --database m.sqlite --since 365d --json >history.json
