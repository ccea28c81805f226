# Box and responder over vsock, within one machine.
set +e
lathunt respond vsock:1:4711 >respond 2>&1 &
respond=$!
lathunt box vsock:1:4711 -i 10ms -D 2s --json -o run >run.json 2>talk
echo $? >box-status
kill -INT $respond
wait $respond
exit 0
