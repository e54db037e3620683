# Arguments: the image layout, a directory for this test, the tag.
image=$1 work=$2 tag=$3

skopeo copy --quiet --insecure-policy "oci:$image:$tag" "oci:$work/copy:$tag"
skopeo inspect --config "oci:$work/copy:$tag" > "$work/config.json"
grep -q '"User": *"65532:65532"' "$work/config.json"
umoci unpack --image "$work/copy:$tag" "$work/bundle" > "$work/umoci.log" 2>&1 || { cat "$work/umoci.log"; exit 1; }
root=$work/bundle/rootfs
find "$root" -type f | sort > "$work/files"
[ "$(wc -l < "$work/files")" -eq 3 ] || { echo 'the image has other files than the programs:'; cat "$work/files"; exit 1; }

# An engine creates and mounts these.
mkdir -p "$root/proc" "$root/site"
cp "$work/site/index.html" "$root/site/"

# Network, mounts and processes of its own; the read-only root; a user without capabilities.
cat > "$work/inside.sh" <<'INSIDE'
root=$1 sandbox=$2
ip link set lo up
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -o remount,bind,ro "$root"
setpriv --no-new-privs chroot --userspec=65532:65532 "$root" /usr/local/bin/cannery-server --folder /site --bind :8080 \
    --sandbox "$sandbox" &
server=$!
for _ in $(seq 100); do
    if body=$(curl --silent --fail http://127.0.0.1:8080/); then break; fi
    sleep 0.1
done
kill -TERM "$server"
wait "$server"
[ "$body" = '<title>in an image</title>' ] || { echo "unexpected response: $body"; exit 1; }
INSIDE
# As for the black box tests, on a machine without Landlock.
sandbox=${CANNERY_TEST_SANDBOX:-require}
unshare --net --mount --pid --fork --kill-child sh -eu "$work/inside.sh" "$root" "$sandbox"
