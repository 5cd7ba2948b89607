#!/bin/sh
# Makes FILE (.device.tgz by default): all that tests/gpu/on_device.sh needs on a machine that has
# neither the tree nor the libraries. The programs are those of RT_BIN (default: build/release/bin),
# with the shared libraries that they link, but those of the C library. There:
#
#   mkdir checks && tar -xzf .device.tgz -C checks && checks/tests/gpu/on_device.sh FOLDER
set -eu
cd "$(dirname "$0")/../.."
file=${1:-.device.tgz}
bin=${RT_BIN:-build/release/bin}
to=$(mktemp -d)
trap 'rm -r "$to"' EXIT
mkdir -p "$to/bin/fake" "$to/lib/rt" "$to/share/rt/python"
for program in rt rt-cli rt-head rt-worker rt-shim rt-probe rt-gpu-suspend; do
    [ -e "$bin/$program" ] || { echo "left out: $program is not built"; continue; }
    cp "$bin/$program" "$to/bin/"
    LD_TRACE_LOADED_OBJECTS=1 "$bin/$program" 2>/dev/null |
        sed -n 's/^[[:space:]]*\(.*\) => \(.*\) (.*/\1 \2/p' |
        while read -r name path; do
            case $name in
                linux-vdso.*|ld-linux*|libc.*|libm.*|libdl.*|libpthread.*|librt.*|libresolv.*) ;;
                *) cp -L "$path" "$to/lib/rt/$name" ;;
            esac
        done
done
cp "$bin"/fake/*.so* "$to/bin/fake/" 2>/dev/null || true
cp -r python/rt "$to/share/rt/python/"
mkdir -p "$to/tests/gpu" "$to/tests/integration"
cp tests/gpu/on_device.sh tests/gpu/*.py "$to/tests/gpu/"
cp tests/integration/harness.py "$to/tests/integration/"
find "$to" -name __pycache__ -prune -exec rm -r {} +
find "$to/bin" "$to/lib" -type f -exec strip -g {} + 2>/dev/null || true
tar -czf "$file" -C "$to" bin lib share tests
ls -l "$file"
