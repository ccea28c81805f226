#!/bin/sh
# What the tracer costs, beside LTTng-UST where it is installed: tracer/bench/run.sh [LOOPS] [ROUNDS]
#
# One line per measurement: name, loops, then minimum, median, p99, p99.85 (a packet switch: 128 events of 32 bytes fill
# 4 KiB), p99.99 and maximum of the loop's gap in ns. "empty" is the loop itself: subtract its median. Rounds alternate.
set -eu

# Root's session daemon of LTTng has its sockets in a fixed place: ours gets one that nobody else sees.
if [ "$(id -u)" = 0 ] && [ -z "${LATHUNT_BENCH_ALONE:-}" ] && unshare --mount true 2>/dev/null; then
    LATHUNT_BENCH_ALONE=yes exec unshare --mount "$0" "$@"
fi

cd "$(dirname "$0")/../.."
loops=${1:-1000000}
rounds=${2:-2}
work=$(mktemp -d)
LATHUNT_TRACE_DIR=$(mktemp -d -p /dev/shm)
LTTNG_HOME=$work/lttng
export LATHUNT_TRACE_DIR LTTNG_HOME
mkdir -p "$LTTNG_HOME"
if [ -n "${LATHUNT_BENCH_ALONE:-}" ]; then
    mkdir -p /var/run/lttng
    mount -t tmpfs lathunt-bench /var/run/lttng
fi
tidy() {
    target/release/lathunt trace stop >/dev/null 2>&1 || true
    if [ -s "$work/sessiond.pid" ]; then kill "$(cat "$work/sessiond.pid")" || true; fi
    rm -rf "$work" "$LATHUNT_TRACE_DIR"
}
trap tidy EXIT

cargo build --quiet --release --package lathunt
tracer/install.sh "$work/usr"
flags="$(PKG_CONFIG_PATH="$work/usr/lib/pkgconfig" pkg-config --cflags --libs lathunt-tracer) -Wl,-rpath,$work/usr/lib"
# shellcheck disable=SC2086
cc -O2 tracer/bench/cost_lathunt.c $flags -o "$work/cost"
# shellcheck disable=SC2086
cc -O2 tracer/bench/rate.c $flags -lpthread -o "$work/rate"
# shellcheck disable=SC2086
cc -O2 tracer/bench/silent.c $flags -o "$work/silent"

peer=
if command -v lttng >/dev/null && cc -O2 -Itracer/bench tracer/bench/cost_lttng.c -o "$work/cost_lttng" \
    -llttng-ust -ldl 2>/dev/null; then
    peer=yes
    lttng-sessiond --daemonize --no-kernel --pidfile="$work/sessiond.pid" >/dev/null 2>&1 || true
else
    echo "lttng-ust: not installed (lttng-tools, liblttng-ust-dev)"
fi

# Room for two bursts: what is measured is events that are recorded, in memory that has been used before.
lttng_round() { # NAME OPTION...
    name=$1
    shift
    {
        lttng create "bench-$name" --output="$work/lttng-$name"
        lttng enable-channel --userspace --subbuf-size=4096 --num-subbuf=1024 "$@" bench
        lttng enable-event --userspace --channel=bench bench:words
        lttng start
    } >/dev/null
    "$work/cost_lttng" "$loops" 1 "$name" | grep -v '^empty'
    lttng stop "bench-$name" >/dev/null
    lttng list "bench-$name" | awk -v name="$name" '/Discarded events:/ { print name ": " $3 " discarded" }'
    lttng destroy "bench-$name" >/dev/null
    rm -rf "$work/lttng-$name"
}

echo "# cost of an event (32 bytes)"
round=0
while [ "$round" -lt "$rounds" ]; do
    target/release/lathunt trace --user --flight -e bench:words -o "$work/flight" -- "$work/cost" "$loops" 1 |
        grep -v events | sed 's/^lathunt /lathunt-flight /'
    target/release/lathunt trace --user -e bench:words -o "$work/discard" -- "$work/cost" "$loops" 1 | grep -v events || true
    rm -rf "$work/flight" "$work/discard"
    if [ -n "$peer" ]; then
        lttng_round lttng-default
        lttng_round lttng-read-timer --read-timer=5000
        lttng_round lttng-overwrite --overwrite
    fi
    round=$((round + 1))
done

consumer_ticks() { # user + system time of a process in clock ticks
    sed 's/.*) //' "/proc/$1/stat" | awk '{ print $12 + $13 }'
}

sustained() { # NAME THREADS RATE SECONDS
    target/release/lathunt trace start -o "$work/rate-out" >/dev/null
    consumer=$(sed -n 's/^consumer //p' "$LATHUNT_TRACE_DIR"/lathunt-*.session)
    before=$(consumer_ticks "$consumer")
    emitted=$("$work/rate" "$2" "$3" "$4")
    after=$(consumer_ticks "$consumer")
    result=$(target/release/lathunt trace stop || true)
    rm -rf "$work/rate-out"
    echo "$1: $emitted; ${result#*: }; consumer $(awk "BEGIN { print ($after - $before) / $4 }") % of a CPU"
}

echo "# ten million events under a filter that kills at the first system call"
silent() { # OPTION...
    target/release/lathunt trace start -o "$work/silent-out" "$@" >/dev/null
    ended=0
    "$work/silent" 10000000 >"$work/silent.txt" || ended=$?
    target/release/lathunt trace stop >/dev/null || true
    rm -rf "$work/silent-out"
    echo "$(cat "$work/silent.txt"), then ended with $ended (7: neither fault nor system call) $*"
}
silent --flight
silent

echo "# sustained"
sustained "1 M events/s, one thread" 1 1000000 5
sustained "5 M events/s, two threads" 2 2500000 3
