# The guest is what it claims to be, and our binary starts in it.
uname -r >release
uname -v >version
cat /sys/kernel/realtime >realtime
cat /sys/kernel/tracing/available_tracers >tracers
lathunt --version >lathunt-version
# Which commands this binary has, so that the tests of those to come are skipped by name.
for command in hunt inject record monitor; do
    lathunt $command --help 2>/dev/null | grep -q "Usage: lathunt $command" && echo $command
done >commands || true
