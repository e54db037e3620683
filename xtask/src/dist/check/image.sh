# Arguments: the image layout, a directory for this test, the tag.
image=$1 work=$2 tag=$3

skopeo copy --quiet --insecure-policy "oci:$image:$tag" "oci:$work/copy:$tag"
skopeo inspect --config "oci:$work/copy:$tag" > "$work/config.json"
grep -q '"User": *"65532:65532"' "$work/config.json"
skopeo inspect --raw "oci:$work/copy:$tag" > "$work/manifest.json"
python3 - "$work" <<'LAYERS'
import json, sys
manifest, config = (json.load(open(f"{sys.argv[1]}/{name}.json")) for name in ("manifest", "config"))
layers = [layer["size"] for layer in manifest["layers"]]
assert len(layers) == 1, f"the image has {len(layers)} layers"
assert sum(layers) <= 8_000_000, f"the image has {sum(layers):,} bytes; at most 8 MB are promised"
command = config["config"].get("Entrypoint", []) + config["config"]["Cmd"]
assert command[-1] == ":8080", f"the command is {command}"
open(f"{sys.argv[1]}/command", "w").write(" ".join(command))
LAYERS
umoci unpack --image "$work/copy:$tag" "$work/bundle" > "$work/umoci.log" 2>&1 || { cat "$work/umoci.log"; exit 1; }
root=$work/bundle/rootfs
find "$root" -type f | sort > "$work/files"
[ "$(wc -l < "$work/files")" -eq 2 ] || { echo 'the image has other files than the programs:'; cat "$work/files"; exit 1; }

# An engine creates and mounts these.
mkdir -p "$root/proc" "$root/site" "$root/srv"
cp "$work/site/index.html" "$root/site/"

# Network, mounts and processes of its own; the read-only root; a user without capabilities.
cat > "$work/inside.sh" <<'INSIDE'
root=$1 sandbox=$2 command=$3
ip link set lo up
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs srv "$root/srv"
mount -o remount,bind,ro "$root"

inside() {
    setpriv --no-new-privs chroot --userspec=65532:65532 "$root" "$@"
}

# Waits until the page has this title.
await() {
    for _ in $(seq 100); do
        if body=$(curl --silent --fail http://127.0.0.1:8080/) && [ "$body" = "<title>$1</title>" ]; then return; fi
        sleep 0.1
    done
    echo "unexpected response: $body"
    exit 1
}

# 1. A folder, by the command that the image has.
# shellcheck disable=SC2086
inside $command --sandbox "$sandbox" &
server=$!
await 'in an image'
kill -TERM "$server"
wait "$server"

# 2. Releases, among which the server switches.
chmod 777 "$root/srv"
inside /usr/local/bin/cannery-archiver /site /srv/1.cdb --quiet
ln -s 1.cdb "$root/srv/current"
inside /usr/local/bin/cannery-server --releases /srv --bind :8080 --sandbox "$sandbox" &
server=$!
await 'in an image'
mkdir "$root/srv/next"
echo '<title>next</title>' > "$root/srv/next/index.html"
inside /usr/local/bin/cannery-archiver /srv/next /srv/2.cdb --quiet
ln -s 2.cdb "$root/srv/new"
mv -T "$root/srv/new" "$root/srv/current"
await next
kill -TERM "$server"
wait "$server"
INSIDE
# As for the black box tests, on a machine without Landlock.
sandbox=${CANNERY_TEST_SANDBOX:-require}
unshare --net --mount --pid --fork --kill-child sh -eu "$work/inside.sh" "$root" "$sandbox" "$(cat "$work/command")"
