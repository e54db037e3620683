# Runs inside the machine as root, with `sh -eux`: installs, serves, upgrades under load, removes and purges the package.
export DEBIAN_FRONTEND=noninteractive

fail() {
    echo "FAILED: $1" >&2
    journalctl --no-pager -u cannery.service -u cannery.socket -u cannery-certificates.service | tail -n 20 >&2 || true
    exit 1
}

now() {
    date +%s%3N
}

# Waits until a command succeeds.
await() {
    started=$(now)
    until "$@"; do
        [ $(($(now) - started)) -lt 20000 ] || fail "after 20 seconds: $*"
        sleep 0.02
    done
}

page() {
    curl --silent --fail --max-time 5 http://127.0.0.1/
}

shows() {
    page | grep -q "$1"
}

# 1. Installation ends with a page.
installation=$(now)
dpkg -i /check/first.deb > /dev/null
await shows 'Cannery is running'
echo "from dpkg -i to the first response: $(($(now) - installation)) ms"
systemctl is-active --quiet cannery.service
systemctl is-enabled --quiet cannery.service cannery.socket
user=$(stat -c %U "/proc/$(systemctl show --property=MainPID --value cannery.service)")
[ "$user" = cannery ] || fail "the service runs as $user"
curl --silent --fail http://127.0.0.1:9090/ready > /dev/null || fail 'the admin page is missing'
await test -s /var/log/cannery/access.log

# 2. Documents, and what systemd thinks of the units.
man --where cannery-server cannery-archiver cannery cannery-serve > /dev/null || fail 'a manual page is missing'
[ -s /usr/share/bash-completion/completions/cannery-server ] || fail 'completions are missing'
systemd-analyze verify cannery.service cannery.socket cannery-tls.socket cannery-certificates.service
for unit in cannery.service cannery-certificates.service; do
    systemd-analyze security --no-pager --threshold=25 "$unit" > /tmp/exposure || fail "$(grep '^→' /tmp/exposure)"
    grep '^→' /tmp/exposure
done

# The process for certificates has a user of its own, and tries again and again: there is no authority in this machine.
echo 'CANNERY_ISSUER="example.com --agree --directory-url https://127.0.0.1:1/dir --no-check"' >> /etc/default/cannery
systemctl enable --quiet --now cannery-certificates.service
await grep -q unreachable /var/lib/cannery-certificates/example.com.state.json
systemctl is-active --quiet cannery-certificates.service
[ "$(stat -c '%U:%G %a' /var/lib/cannery-certificates)" = 'cannery-certificates:cannery 750' ] || fail 'the folder has another owner'
[ "$(stat -c '%U:%G %a' /var/lib/cannery-certificates/account.pem)" = 'cannery-certificates:cannery 600' ] \
    || fail 'the account key has another owner'

# 3. A site replaces the first page, by the commands that the page shows.
mkdir /tmp/public
echo '<title>my site</title>' > /tmp/public/index.html
cannery-archiver /tmp/public /srv/cannery/2.cdb --quiet
cannery releases /srv/cannery --use 2 > /dev/null
systemctl reload cannery.service
await shows 'my site'

# 4. An upgrade under load loses no request. Each client sends requests over a connection for as long as the server lets it.
before=$(systemctl show --property=MainPID --value cannery.service)
echo '# changed' >> /etc/default/cannery
for client in 1 2 3 4; do
    (
        while [ ! -e /tmp/stop ]; do
            curl --silent --show-error --fail --max-time 20 --output /dev/null --write-out '%{http_code}\n' \
                'http://127.0.0.1/?[1-100]' >> "/tmp/codes.$client" 2>> "/tmp/errors.$client" || true
        done
    ) &
done
sleep 1
dpkg -i /check/next.deb > /dev/null
sleep 1
touch /tmp/stop
wait
after=$(systemctl show --property=MainPID --value cannery.service)
[ "$before" != "$after" ] || fail 'the upgrade has not restarted the service'
cat /tmp/codes.* | sort | uniq -c > /tmp/codes
cat /tmp/errors.* >&2
[ "$(awk '$2 != 200' /tmp/codes | wc -l)" -eq 0 ] && [ ! -s /tmp/errors.1 ] && [ ! -s /tmp/errors.2 ] \
    && [ ! -s /tmp/errors.3 ] && [ ! -s /tmp/errors.4 ] || fail "requests were lost: $(cat /tmp/codes)"
echo "requests during the upgrade: $(awk '{ print $1 }' /tmp/codes), all with 200"
grep -q '# changed' /etc/default/cannery || fail 'the upgrade has replaced settings'

# 5. A service that was stopped stays stopped.
systemctl stop cannery.socket cannery.service
dpkg -i /check/next.deb > /dev/null
! systemctl is-active --quiet cannery.service || fail 'the upgrade has started a stopped service'
systemctl start cannery.socket cannery.service

# 6. Removal stops the service, and keeps settings and sites.
dpkg -r cannery > /dev/null
! page || fail 'the server still runs after the removal'
[ -s /etc/default/cannery ] && [ -s /srv/cannery/2.cdb ] || fail 'the removal has removed settings or sites'

# Another installation starts it again, although dpkg passes it the last version as to an upgrade.
dpkg -i /check/next.deb > /dev/null
await shows 'my site'
systemctl enable --quiet cannery-tls.socket
dpkg -r cannery > /dev/null
! page || fail 'the server still runs after the second removal'

# 7. A purge removes the rest, except for sites.
dpkg -P cannery > /dev/null
[ -s /srv/cannery/2.cdb ] || fail 'the purge has removed a site'
for left in /etc/default/cannery /etc/logrotate.d/cannery /var/log/cannery /var/lib/cannery \
    /var/lib/cannery-certificates /var/lib/cannery-package; do
    [ ! -e "$left" ] || fail "the purge has left $left"
done
[ -z "$(find /etc/systemd /usr /var/lib/systemd -name '*cannery*')" ] || fail 'the purge has left files'

# 8. An untouched first page goes, too. A used port doesn't make the installation fail.
rm -rf /srv/cannery
systemd-run --quiet --unit=other --property=Type=exec systemd-socket-activate --listen=80 /bin/cat
dpkg -i /check/first.deb > /tmp/install 2>&1 || fail 'a used port makes the installation fail'
grep -q 'another program listens at port 80' /tmp/install || fail 'no message about the used port'
systemctl stop other
systemctl start cannery.socket cannery.service
await shows 'Cannery is running'
dpkg -P cannery > /dev/null
[ ! -e /srv/cannery ] || fail 'the purge has left the first page'

# 9. The directory of sites may be a link. An empty one gets the first page, too.
mkdir /srv/elsewhere
ln -s elsewhere /srv/cannery
dpkg -i /check/first.deb > /dev/null
await shows 'Cannery is running'
dpkg -P cannery > /dev/null
[ -d /srv/cannery ] && [ -z "$(ls -A /srv/elsewhere)" ] || fail 'the purge has removed a link, or left the first page'
echo 'installed, served, upgraded, removed and purged'
