# Creates the user and the first page. $1 is the number of installed versions: 1 unless this is an upgrade.
systemd-sysusers cannery.conf || :

# Copies the first page to where sites go, unless something is there already. The digest lets the removal recognize it.
if [ "$1" -eq 1 ] && [ -z "$(ls -A /srv/cannery 2> /dev/null)" ]; then
    install -d /srv/cannery /var/lib/cannery-package
    install -m 644 /usr/share/cannery/first-page.cdb /srv/cannery/1.cdb
    ln -s 1.cdb /srv/cannery/current
    sha256sum /srv/cannery/1.cdb > /var/lib/cannery-package/first-page.sha256
fi

# On systems with RPM, the administrator starts services, unless a preset says otherwise.
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload > /dev/null 2>&1 || :
fi
if [ "$1" -eq 1 ]; then
    systemctl --no-reload preset cannery.socket cannery.service > /dev/null 2>&1 || :
fi
