#!/bin/sh
# Creates a folder with programs of a newer Debian that speak HTTP/3: servers, and h2load, which Debian builds without it.
#
#     newer_debian.sh SUITE FOLDER
set -e
suite=$1
folder=$2
# The mirror of this system; other archives, such as that of security updates, have other names.
mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | grep '/debian/\?$' | head -n 1)
: "${mirror:?no Debian mirror among the sources of apt}"

# The servers, and what h2load needs.
packages=nginx-light,libnginx-mod-http-brotli-static,haproxy,caddy,g++,make,pkgconf,libngtcp2-dev,libngtcp2-crypto-ossl-dev
packages=$packages,libnghttp3-dev,libssl-dev,libev-dev,libc-ares-dev,zlib1g-dev

# A mirror may be some days late.
mmdebstrap --aptopt='Acquire::Check-Valid-Until "false"' --variant=apt --include "$packages" "$suite" "$folder" \
    "deb $mirror $suite main" "deb-src $mirror $suite main"

chroot "$folder" sh -e -c '
    apt-get --option Acquire::Check-Valid-Until=false update
    mkdir /src
    cd /src
    apt-get source --tar-only nghttp2
    tar --extract --strip-components=1 --file nghttp2_*.orig.tar.*
    ./configure --enable-app --enable-http3 --disable-shared
    make -C lib -j2
    make -C third-party -j2
    make -C src -j2 h2load'
