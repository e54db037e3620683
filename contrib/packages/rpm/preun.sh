# Stops the service before its program is removed. $1 is the number of versions that stay: 0 unless this is an upgrade.
if [ "$1" -eq 0 ]; then
    systemctl --no-reload disable --now cannery.socket cannery-tls.socket cannery.service cannery-certificates.service \
        > /dev/null 2>&1 || :
fi
