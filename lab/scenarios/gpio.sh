# Box and responder over GPIO lines that the kernel simulates (gpio-sim). The wire between them is ours: it hears of each level
# that a line is set to from the kernel's tracepoint, and pulls the line at the other end. It knows what it drops and doubles.
set +e
mkdir -p /sys/kernel/config
mount -t configfs configfs /sys/kernel/config
sim=/sys/kernel/config/gpio-sim/lab
mkdir -p $sim/bank
echo 8 >$sim/bank/num_lines
echo 1 >$sim/live
name=$(cat $sim/bank/chip_name)
chip=/dev/$name
lines=/sys/devices/platform/$(cat $sim/dev_name)/$name
pull() { echo "pull-$2" >"$lines/sim_gpio$1/pull"; }
for line in 0 1 2 3 4 5 6 7; do pull $line up; done

trace=/sys/kernel/tracing/instances/wire
mkdir $trace
echo 'get == 0' >$trace/events/gpio/gpio_value/filter
echo 1 >$trace/events/gpio/gpio_value/enable

# wire DROP TWICE FILE LEVEL: connects 0 to 1 and 2 to 3, where LEVEL is the one of a pulse; loses each DROPth answer, doubles
# each TWICEth, and counts both in FILE.
wire() {
    answers=0 dropped=0 doubled=0 level=$4 pulse=down idle=up
    [ $level = 0 ] || { pulse=up idle=down; }
    pull 3 $idle
    while read -r line; do
        set -- "$1" "$2" "$3" ${line##*gpio_value: }
        # The chip's lines begin at a multiple of 8.
        case $(($4 % 8)):$6 in
            0:0) pull 1 down ;;
            0:1) pull 1 up ;;
            2:$level)
                answers=$((answers + 1))
                if [ $((answers % $1)) = 0 ]; then
                    dropped=$((dropped + 1))
                else
                    pull 3 $pulse
                    pull 3 $idle
                    if [ $((answers % $2)) = 0 ]; then
                        doubled=$((doubled + 1))
                        pull 3 $pulse
                        pull 3 $idle
                    fi
                fi
                echo "$answers $dropped $doubled" >"$3"
                ;;
        esac
    done <$trace/trace_pipe
}

# measure NAME DROP TWICE DELAY LEVEL: NAME.json, NAME.wire.
measure() {
    wire $2 $3 $1.wire $5 &
    wire=$!
    [ $5 = 0 ] && edge= || edge==rising
    lathunt respond gpio:$chip:2$edge,1 --delay $4 >$1.respond 2>&1 &
    respond=$!
    lathunt box gpio:$chip:0,3$edge -i 20ms -D 2s --timeout 15ms --json -o $1 >$1.json 2>$1.talk
    echo $? >$1-status
    kill -INT $respond
    wait $respond
    kill $wire
    wait $wire
    cat $1.wire # in stdout
}
measure plain 1000000 1000000 0us 0
measure delayed 1000000 1000000 5ms 0
measure faulty 10 7 0us 0
measure rising 1000000 1000000 0us 1

# Nobody answers.
lathunt box gpio:$chip:0,3 -i 20ms -D 200ms --timeout 15ms --wait 1s --json -o silent >silent.json 2>silent.talk
echo $? >silent-status

# More edges than the kernel keeps while the box stands still: the gap in their numbers.
wire 1000000 1000000 gap.wire 0 &
wire=$!
lathunt respond gpio:$chip:2,1 >gap.respond 2>&1 &
respond=$!
lathunt box gpio:$chip:0,3 -i 20ms -D 2s --timeout 15ms --json -o gap >gap.json 2>gap.talk &
box=$!
sleep 1
kill -STOP $box
for edge in $(seq 1500); do
    pull 3 down
    pull 3 up
done
kill -CONT $box
wait $box
echo $? >gap-status

# The responder has lines 1 and 2.
for lines_of in 0,1 2,3 0,8 99,3; do
    lathunt box gpio:$chip:$lines_of -D 100ms --wait 100ms >refused.$lines_of 2>&1
    echo $? >refused.$lines_of-status
done
kill -INT $respond
wait $respond
kill $wire
echo 0 >$sim/live
lathunt box gpio:$chip:0,3 -D 100ms --wait 100ms >refused.gone 2>&1
echo $? >refused.gone-status
exit 0
