# Task sets on fibers, on a PREEMPT_RT kernel: both ways to interrupt a running fiber, and the one measured as better
# there. U = 0.95, at which fixed priorities miss one job in each 600 ms.
cat >set.json <<'SET'
{"tasks": {
    "a": {"priority": 20, "loop": -1, "cputime": 90000,
        "timer": {"ref": "unique", "period": 200000, "mode": "absolute"}},
    "b": {"priority": 10, "loop": -1, "cputime": 150000,
        "timer": {"ref": "unique", "period": 300000, "mode": "absolute"}}
}, "global": {"default_policy": "SCHED_FIFO"}}
SET
for how in measured timer helper; do
    code=0
    lathunt tasks run set.json --scheduler fiber-fp --preemption $how -D 2400ms --json >$how.json 2>$how.err || code=$?
    echo $code >$how.code
done
