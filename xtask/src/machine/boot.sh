# Argument: the directory of the machine, in which check.service runs machine.sh and then powers off.
root=$1

timeout --kill-after=10 300 systemd-nspawn --quiet --directory="$root" --register=no --keep-unit --private-network --boot \
    > "$root/check/console" 2>&1 < /dev/null || true
if [ "$(cat "$root/check/status" 2> /dev/null)" != 0 ]; then
    tail -n 20 "$root/check/console" || true
    tail -n 40 "$root/check/log" || true
    echo 'the test in the machine failed; its output is above' >&2
    exit 1
fi
cat "$root/check/output"
