#!/bin/sh
# Serves the folder that HttpArena mounts at /data/static, so its parent is the site's root.
set -e

serve() {
    # The archiver compresses by itself.
    exec cannery-server --folder /data --ignore '*.gz' --ignore '*.br' \
        --tls-public /certs/server.crt --tls-private /certs/server.key "$@"
}

# The profile for HTTP/1.1 over TLS wants a port without HTTP/2. The flag is for all ports of a server, so this one has its own.
serve --bind-tls :8081 --http2-disable &
serve --bind :8080 --bind-tls :8443 --bind-quic :8443
