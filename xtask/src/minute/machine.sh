# Runs inside the machine as root, with `sh -eux`. /check has the package, the lines of README.md, and the authority.
export DEBIAN_FRONTEND=noninteractive HOME=/root
name=example.com
page='<title>my site</title>'

fail() {
    echo "FAILED: $1" >&2
    journalctl --no-pager -u cannery.service -u cannery.socket -u authority -u names | tail -n 40 >&2 || true
    exit 1
}

now() {
    date +%s%3N
}

# Waits until a command succeeds.
await() {
    started=$(now)
    until "$@"; do
        [ $(($(now) - started)) -lt 30000 ] || fail "after 30 seconds: $*"
        sleep 0.05
    done
}

# Prints the time since the last step.
step() {
    echo "$(awk "BEGIN { printf \"%5.1f\", ($(now) - $last) / 1000 }") s  $1"
    last=$(now)
}

# 1. What such a machine has: a name that leads to it, access by ssh, and somewhere a certificate authority.
ip link set lo up || true
echo "127.0.0.1 localhost $name" >> /etc/hosts
mkdir -m 700 -p /root/.ssh
ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/id_ed25519
cp /root/.ssh/id_ed25519.pub /root/.ssh/authorized_keys
await ssh-keyscan -t ed25519 "$name" > /root/.ssh/known_hosts
mkdir -p /root/work/public
echo "$page" > /root/work/public/index.html
mv /check/*.deb /root/work/
cd /root/work

# The authority's own server has a certificate that is its own root.
cat > /check/request <<'REQUEST'
[req]
distinguished_name = name
x509_extensions = extensions
prompt = no
[name]
CN = authority
[extensions]
basicConstraints = critical, CA:FALSE
subjectAltName = DNS:localhost
REQUEST
openssl req -x509 -config /check/request -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 \
    -keyout /check/key.pem -out /etc/ssl/authority.pem 2> /dev/null
cat > /check/pebble.json <<'PEBBLE'
{ "pebble": {
    "listenAddress": "127.0.0.1:14000", "managementListenAddress": "127.0.0.1:15000",
    "certificate": "/etc/ssl/authority.pem", "privateKey": "/check/key.pem",
    "httpPort": 80, "tlsPort": 443, "retryAfter": { "authz": 1, "order": 1 },
    "profiles": { "default": { "description": "90 days", "validityPeriod": 7776000 } }
} }
PEBBLE
systemd-run --quiet --unit=names /check/pebble-challtestsrv -http01 '' -https01 '' -tlsalpn01 '' -doh '' -defaultIPv6 '' \
    -dnsserver 127.0.0.1:8053 -management 127.0.0.1:8055
systemd-run --quiet --unit=authority --setenv=PEBBLE_VA_NOSLEEP=1 --setenv=PEBBLE_WFE_NONCEREJECT=0 \
    /check/pebble -config /check/pebble.json -dnsserver 127.0.0.1:8053 -strict
await curl --silent --insecure --output /check/root.pem https://127.0.0.1:15000/roots/0
export SSL_CERT_FILE=/check/root.pem

first_page() {
    curl --silent --fail --max-time 5 "http://$name/" | grep -q 'Cannery is running'
}

trusted() {
    curl --silent --fail --max-time 5 --output /dev/null --cacert /check/root.pem "https://$name/"
}

published() {
    [ "$(/check/quic_go get "https://$name/" 2> /check/http3)" = "$page" ]
}

# 2. The minute. Each command is run as README.md has it, and then the machine does what README.md says.
begun=$(now)
last=$begun
while read -r command || [ -n "$command" ]; do
    case $command in
        systemctl*)
            # The only file that is edited. The other flags are those of an authority that the program doesn't know.
            setting=$(sed 's|"$| --acme-directory-url https://localhost:14000/dir --acme-directory-roots /etc/ssl/authority.pem"|' \
                /check/setting)
            grep -qxF "#$(cat /check/setting)" /etc/default/cannery || fail 'README.md shows another line than the file has'
            sed -i "s|^#CANNERY_CERTIFICATES=.*|$setting|" /etc/default/cannery
            ;;
    esac
    sh -eu -c "$command" < /dev/null >> /check/log 2>&1 || fail "$command"
    case $command in
        apt*)
            await first_page
            step "$command: the first page answers"
            ;;
        systemctl*)
            await trusted
            step "$command: the certificate is trusted"
            ;;
        cannery*)
            await published
            step "$command: the site answers over HTTP/3"
            ;;
    esac
done < /check/commands
took=$(($(now) - begun))
[ "$took" -le 60000 ] || fail "it took $took ms"

# 3. The promises about what is there now.
status=$(curl --silent --output /dev/null --write-out '%{http_code} %{redirect_url}' "http://$name/")
[ "$status" = "308 https://$name/" ] || fail "plain HTTP answers: $status"
folder=/var/lib/cannery/certificates
[ "$(stat -c '%U %a' $folder)" = 'cannery 700' ] || fail "$folder belongs to $(stat -c '%U %a' $folder)"
[ "$(stat -c '%a' $folder/$name.pem)" = 600 ] || fail 'others can read the key'
! systemctl show --property=Environment cannery.service | grep -q acme || fail 'the setting is not in the file'
# A restart gets no new certificate, and is trusted at once.
serial=$(openssl x509 -noout -serial -in $folder/$name.pem)
systemctl restart cannery.service
await trusted
await published
[ "$serial" = "$(openssl x509 -noout -serial -in $folder/$name.pem)" ] || fail 'a restart has ordered another certificate'
systemctl is-active --quiet cannery.service || fail 'the service has ended'
echo "$(awk "BEGIN { printf \"%5.1f\", $took / 1000 }") s  $(grep -c . /check/commands) commands, 1 edited file"
