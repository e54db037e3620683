# Arguments: a directory that keeps the system for the next run, the directory of the machine, the release of Debian.
kept=$1 root=$2 release=$3

# The name changes with the list of packages. All of them are on a usual machine.
complete=$kept/complete-with-logrotate
if [ ! -f "$complete" ]; then
    rm -rf "$kept"
    debootstrap --variant=minbase --include=systemd,systemd-sysv,curl,logrotate,man-db,openssh-server,openssl "$release" "$kept"
    touch "$complete"
fi
rm -rf "$root"
cp --archive "$kept" "$root"
mkdir "$root/check"
# Minimal systems leave out documents, but a test looks for them.
rm -f "$root"/etc/dpkg/dpkg.cfg.d/*
cat > "$root/etc/systemd/system/check.service" <<'UNIT'
[Unit]
Description=Test of the package
# As for an administrator, the machine is up.
After=network.target ssh.service

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
