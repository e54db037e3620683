# Arguments: the emulator, the directory of the programs, a directory for this test.
emulator=$1 programs=$2 work=$3

ip link set lo up
"$emulator" "$programs/cannery-archiver" "$work/site" "$work/site.cdb" --quiet
# The emulator makes other system calls than the server.
"$emulator" "$programs/cannery-server" "$work/site.cdb" --bind 127.0.0.1:8080 --sandbox off &
server=$!
for _ in $(seq 200); do
    if body=$(curl --silent --fail http://127.0.0.1:8080/); then break; fi
    sleep 0.1
done
kill -TERM "$server"
wait "$server" || true
[ "$body" = '<title>emulated</title>' ] || { echo "unexpected response: $body"; exit 1; }
