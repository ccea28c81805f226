# Jobs of known length, some of them late: cli/tests/record/hidden.c, as in hidden.sh, for a guest that is slow.
set +e
export RUN_MS=1500 GOOD_US=5000
lathunt record --deadline 40ms --json -o /tmp/plain -- hidden plain >plain.json 2>plain.talk
echo $? >plain-status
