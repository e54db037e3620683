# $1 is the number of versions that stay: 0 unless this is an upgrade.
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload > /dev/null 2>&1 || :
fi
if [ "$1" -ge 1 ]; then
    # The socket stays open, so connections wait in its queue until the new program accepts them.
    systemctl try-restart cannery.service cannery-certificates.service > /dev/null 2>&1 || :
else
    # Sites, certificates and logs stay, except for an untouched first page.
    if sha256sum --check --status /var/lib/cannery-package/first-page.sha256 2> /dev/null; then
        if [ "$(readlink /srv/cannery/current)" = 1.cdb ]; then
            rm -f /srv/cannery/current /srv/cannery/1.cdb
        fi
        rmdir /srv/cannery 2> /dev/null || :
    fi
    rm -f /var/lib/cannery-package/first-page.sha256
    rmdir /var/lib/cannery-package 2> /dev/null || :
fi
