# The machine is suspended while a daemon records: the kernel's own test of that does everything but switch the hardware
# off, for two seconds in which its clocks are stopped (Documentation/power/basic-pm-debugging.rst, pm_test "core").
: >said
echo 2 >/sys/module/suspend/parameters/pm_test_delay
echo core >/sys/power/pm_test
lathunt monitor --window 3s --listen off --database m.sqlite 2>>said &
monitor=$!
says() { until grep -q "$1" said; do sleep 1; done; }
says recording:
lathunt cyclic -q -c 0 -p 80 -i 20000 -D 600s >/dev/null 2>&1 &
victim=$!
sleep 2
# Near the end of a window, which passes during suspend; the next one does not.
while [ $(($(date +%s) % 3)) != 2 ]; do sleep 0.1; done
echo mem >/sys/power/state
says slept
# Whole windows after it.
sleep 8
kill -INT $victim
kill -TERM $monitor
wait $monitor
lathunt history --database m.sqlite --since 365d --json >history.json
