# Applications with hidden late work, on a kernel that reports every switch: cli/tests/record/hidden.c. The thread that is
# never late has 5 ms instead of 50 µs, for the emulator.
set +e
export RUN_MS=1500 GOOD_US=5000
for mode in plain threadjob; do
    lathunt record --deadline 40ms --json -o "/tmp/$mode" -- hidden "$mode" >"$mode.json" 2>"$mode.talk"
    echo $? >"$mode-status"
done
