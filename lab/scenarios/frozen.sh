# CPU 0 is in user mode and CPU 1 in the kernel whenever the test outside stops the whole machine for 300 ms.
set +e
taskset 1 sh -c 'while :; do :; done' &
user=$!
taskset 2 dd if=/dev/zero of=/dev/null bs=16M 2>dd &
kernel=$!
echo "sh/$user dd/$kernel" >programs
# Far longer than needed: it is stopped when the machine was stopped often enough, however slow the emulator is.
lathunt hunt -D 90s --load none --json -o frozen >run.json 2>told &
hunt=$!
# Its last message before it measures; the first line of progress comes when half of its time is over.
until grep -qs '^load: ' told || [ ! -d /proc/$hunt ]; do usleep 100000; done
for again in 1 2 3 4 5 6 7 8; do
    usleep 1200000
    echo "lab: freeze me" >/dev/console
done
usleep 1200000
kill -INT $hunt
wait $hunt
echo $? >hunt-status
kill $user $kernel
