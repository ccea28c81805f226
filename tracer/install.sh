#!/bin/sh
# Installs the tracer for C and C++: libraries, header, pkg-config file, CMake package.
#   tracer/install.sh [--debug] [--built] [--remove] PREFIX      DESTDIR and LIBDIR (default PREFIX/lib) are honoured
set -eu

here=$(cd "$(dirname "$0")" && pwd)
profile=release
remove=
built_already=
while :; do
    case ${1:-} in
    --debug) profile=dev ;;
    --built) built_already=yes ;; # what `make build` has made
    --remove) remove=yes ;;
    *) break ;;
    esac
    shift
done
prefix=${1:?"usage: install.sh [--debug] [--remove] PREFIX"}
libdir=${LIBDIR:-$prefix/lib}
root=${DESTDIR:-}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$here/../Cargo.toml" | head -n 1)
headers="trace.h trace_each.h trace_fields.h trace_ring.h"

if [ -n "$remove" ]; then
    for header in $headers; do rm -f "$root$prefix/include/lathunt/$header"; done
    rm -f "$root$libdir"/liblathunt-tracer.a "$root$libdir"/liblathunt-tracer.so* "$root$libdir/pkgconfig/lathunt-tracer.pc"
    rm -rf "$root$libdir/cmake/lathunt-tracer"
    rmdir "$root$prefix/include/lathunt" 2>/dev/null || true
    exit 0
fi

if [ -z "$built_already" ]; then
    cargo build --quiet --locked --manifest-path "$here/Cargo.toml" --lib --profile "$profile"
fi
built=${CARGO_TARGET_DIR:-$here/../target}/$([ "$profile" = dev ] && echo debug || echo release)

install -d "$root$prefix/include/lathunt" "$root$libdir/pkgconfig" "$root$libdir/cmake/lathunt-tracer"
for header in $headers; do
    install -m 644 "$here/include/lathunt/$header" "$root$prefix/include/lathunt/$header"
done
install -m 755 "$built/liblathunt_tracer.so" "$root$libdir/liblathunt-tracer.so.$version"
ln -sf "liblathunt-tracer.so.$version" "$root$libdir/liblathunt-tracer.so.0"
ln -sf liblathunt-tracer.so.0 "$root$libdir/liblathunt-tracer.so"
install -m 644 "$built/liblathunt_tracer.a" "$root$libdir/liblathunt-tracer.a"

fill() {
    sed -e "s|@PREFIX@|$prefix|g" -e "s|@LIBDIR@|$libdir|g" -e "s|@VERSION@|$version|g" "$here/$1" >"$2"
    chmod 644 "$2"
}
fill lathunt-tracer.pc.in "$root$libdir/pkgconfig/lathunt-tracer.pc"
fill lathunt-tracer-config.cmake.in "$root$libdir/cmake/lathunt-tracer/lathunt-tracer-config.cmake"
fill lathunt-tracer-config-version.cmake.in "$root$libdir/cmake/lathunt-tracer/lathunt-tracer-config-version.cmake"
# Or programs do not find the library until the next time that somebody does it.
if [ -z "$root" ] && [ "$(id -u)" = 0 ] && command -v ldconfig >/dev/null; then ldconfig; fi
