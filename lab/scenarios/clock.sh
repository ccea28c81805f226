# The cost of reading the clock by each path, and a busy loop that reads it.
cat /sys/devices/system/clocksource/clocksource0/current_clocksource >clocksource
lathunt clock -n 2000 --json >clock.json
lathunt npt --no-record -n 20000 --threshold 1ms --json >npt.json
