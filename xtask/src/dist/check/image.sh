# Arguments: the image layout, a directory for this test, the tag, and the directory of static programs for this machine, if there are any.
image=$1 work=$2 tag=$3 programs=${4-}
# As for the black box tests, on a machine without Landlock.
sandbox=${CANNERY_TEST_SANDBOX:-require}

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

# Unpacks an image into a directory.
unpack() {
    umoci unpack --image "$1" "$2" > "$work/umoci.log" 2>&1 || { cat "$work/umoci.log"; exit 1; }
}

unpack "$work/copy:$tag" "$work/bundle"
root=$work/bundle/rootfs
find "$root" -type f | sort > "$work/files"
links=$(stat --format %h "$(head -1 "$work/files")")
if [ "$(wc -l < "$work/files")" -ne 2 ] || [ "$links" -ne 2 ]; then
    echo 'the image has other files than one program with two names:'
    cat "$work/files"
    exit 1
fi

# An engine creates and mounts these.
mkdir -p "$root/proc" "$root/site" "$root/srv"
cp "$work/site/index.html" "$root/site/"

# Network, mounts and processes of its own; the read-only root; a user without capabilities.
cat > "$work/container.sh" <<'CONTAINER'
root=$1 sandbox=$2 command=$3
ip link set lo up
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -o remount,bind,ro "$root"

# Not a function, which would be a process of its own in the background.
inside="setpriv --no-new-privs chroot --userspec=65532:65532"

# Waits until the page has this title.
await() {
    for _ in $(seq 100); do
        if body=$(curl --silent --fail http://127.0.0.1:8080/) && [ "$body" = "<title>$1</title>" ]; then return; fi
        sleep 0.1
    done
    echo "unexpected response: $body"
    exit 1
}

# Starts a server, and waits until its page has this title.
serves() {
    title=$1
    shift
    $inside "$root" "$@" --sandbox "$sandbox" &
    server=$!
    await "$title"
}

stop() {
    kill -TERM "$server"
    wait "$server"
}
CONTAINER

cat "$work/container.sh" - > "$work/all-programs.sh" <<'INSIDE'
# 1. A folder, by the command that the image has.
# shellcheck disable=SC2086
serves 'in an image' $command
stop

# 2. Releases, among which the server switches.
mount -t tmpfs -o mode=777 srv "$root/srv"
$inside "$root" /usr/local/bin/cannery-archiver /site /srv/1.cdb --quiet
ln -s 1.cdb "$root/srv/current"
serves 'in an image' /usr/local/bin/cannery-server --releases /srv --bind :8080
mkdir "$root/srv/next"
echo '<title>next</title>' > "$root/srv/next/index.html"
$inside "$root" /usr/local/bin/cannery-archiver /srv/next /srv/2.cdb --quiet
ln -s 2.cdb "$root/srv/new"
mv -T "$root/srv/new" "$root/srv/current"
await next
stop
INSIDE
unshare --net --mount --pid --fork --kill-child sh -eu "$work/all-programs.sh" "$root" "$sandbox" "$(cat "$work/command")"

[ -n "$programs" ] || exit 0

# 3. The server and a site, in an image that `cannery image` has made.
"$programs/cannery-archiver" "$work/site" "$work/site.cdb" --quiet
"$programs/cannery" image "$work/site.cdb" -o "$work/own" --tag own --server "$programs/cannery-server"
skopeo inspect --config "oci:$work/own:own" > "$work/own.json"
python3 - "$work" <<'COMMAND'
import json, sys
config = json.load(open(f"{sys.argv[1]}/own.json"))["config"]
assert config["User"] == "65532:65532", config
open(f"{sys.argv[1]}/own-command", "w").write(" ".join(config.get("Entrypoint", []) + config.get("Cmd", [])))
COMMAND
unpack "$work/own:own" "$work/own-bundle"
root=$work/own-bundle/rootfs
mkdir -p "$root/proc"
cat "$work/container.sh" - > "$work/own.sh" <<'INSIDE'
# shellcheck disable=SC2086
serves 'in an image' $command
stop
INSIDE
unshare --net --mount --pid --fork --kill-child sh -eu "$work/own.sh" "$root" "$sandbox" "$(cat "$work/own-command")"
