# Arguments: a directory that keeps the system for the next run, the directory of the machine, the release of Debian.
kept=$1 root=$2 release=$3

if [ ! -f "$kept/complete" ]; then
    rm -rf "$kept"
    debootstrap --variant=minbase --include=systemd,systemd-sysv,curl,man-db "$release" "$kept"
    touch "$kept/complete"
fi
rm -rf "$root"
cp --archive "$kept" "$root"
mkdir "$root/check"
# Minimal systems leave out documents, but the test looks for them.
rm -f "$root"/etc/dpkg/dpkg.cfg.d/*
cat > "$root/etc/systemd/system/check.service" <<'UNIT'
[Unit]
Description=Test of the package

[Service]
Type=oneshot
ExecStart=/bin/sh -eux /check/machine.sh
StandardOutput=file:/check/output
StandardError=append:/check/log
ExecStopPost=/bin/sh -c 'echo $EXIT_STATUS > /check/status; systemctl poweroff --force --force'

[Install]
WantedBy=multi-user.target
UNIT
ln -s ../check.service "$root/etc/systemd/system/multi-user.target.wants/check.service"
