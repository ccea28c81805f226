# The guest runs the expected kernel, and our binary starts in it.
uname -r >release
uname -v >version
cat /sys/kernel/realtime >realtime
cat /sys/kernel/tracing/available_tracers >tracers
lathunt --version >lathunt-version
