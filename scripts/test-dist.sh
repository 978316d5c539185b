#!/usr/bin/env bash
# Installs the artefacts of scripts/dist.sh in fresh roots of Debian bookworm and trixie, without a
# network, and runs them: the package (first report, upgrade over itself, purge), the tarball, the
# image and the wheel. Prints the seconds from the installation to the first report. Needs root.
#
# Usage: test-dist.sh [SUITE...]; bookworm and trixie by default.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
for package in debootstrap umoci; do
    command -v "$package" >/dev/null && continue
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" \
        >/dev/null
done
(cd dist && sha256sum --quiet --check SHA256SUMS)

fail() {
    echo "error: $1" >&2
    exit 1
}

# Runs a command in the root, without a network.
inside() { unshare --net chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/ "$@"; }

# Runs the first example by the program $1 in the root, in its directory $2.
first_report() {
    rm -rf "${root:?}/$2"
    mkdir -p "$root/$2"
    inside "$1" examples guarantee --to "$2/examples" >/dev/null
    inside "$1" run "$2/examples/guarantee/scenario.toml" --bounds --report "$2/report.html" \
        >"$root/$2/table" 2>"$root/$2/notes" || { cat "$root/$2/notes" >&2; fail "no run"; }
    grep -q 'voice' "$root/$2/table" || fail "no table"
    grep -q '</svg>' "$root/$2/report.html" || fail "no charts in the report"
}

# Lists the files of the root that packages may leave, without the backups of the user database.
files() {
    (cd "$root" && find etc usr var/lib -path var/lib/dpkg -prune -o -print |
        grep -v '^etc/g\?shadow-$\|^etc/\(passwd\|group\|subuid\|subgid\)-$' | sort)
}

# The wheels that Millstream's needs, for the Python of the root.
wheels() {
    local running to=$target/roots/$suite.wheels
    running=$(inside python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    if [[ ! -e $to/done ]]; then
        rm -rf "$to"
        # shellcheck disable=SC1091
        (
            source scripts/python-env.sh
            python_tools
            "$target/$uv/bin/pip" download --quiet --only-binary :all: --dest "$to" \
                --python-version "$running" \
                --platform manylinux_2_28_x86_64 --platform manylinux2014_x86_64 \
                numpy pyarrow tomli-w tqdm
        )
        touch "$to/done"
    fi
    cp -r "$to" "$root/tmp/wheels"
    cp dist/*.whl "$root/tmp/wheels/"
}

[[ $# -gt 0 ]] || set -- bookworm trixie
mkdir -p "$target/roots"
for suite in "$@"; do
    libraries=libpcap0.8,libelf1
    [[ $suite = bookworm ]] || libraries=libpcap0.8t64,libelf1t64
    base=$target/roots/$suite-$libraries.tar
    root=$target/roots/$suite
    if [[ ! -e $base ]]; then
        rm -rf "$root"
        mkdir -p "$root"
        debootstrap --variant=minbase --include="$libraries,python3,python3-venv" "$suite" "$root" \
            http://deb.debian.org/debian >"$target/roots/$suite.log"
        tar -C "$root" -cf "$base" .
    fi
    rm -rf "$root"
    mkdir -p "$root"
    tar -C "$root" -xf "$base"

    cp dist/*.deb "$root/tmp/millstream.deb"
    before=$(files)
    SECONDS=0
    inside dpkg --install /tmp/millstream.deb >/dev/null
    first_report millstream /tmp/first
    echo "$suite: package: installed and reported in $SECONDS s"
    for page in man/man1/millstream-run.1.gz bash-completion/completions/millstream \
        zsh/vendor-completions/_millstream fish/vendor_completions.d/millstream.fish \
        millstream/grafana/millstream.json doc/millstream/examples/router/router.toml; do
        [[ -s $root/usr/share/$page ]] || fail "$suite: no /usr/share/$page"
    done
    inside getent passwd millstream >/dev/null || fail "$suite: no user millstream"
    grep -q '^User=millstream' "$root/usr/lib/systemd/system/millstream-router.service" ||
        fail "$suite: the unit has another user"
    inside dpkg --install /tmp/millstream.deb >/dev/null
    inside dpkg --purge millstream >/dev/null
    ! inside getent passwd millstream >/dev/null || fail "$suite: the user is left"
    after=$(files)
    [[ $before = "$after" ]] || {
        diff <(echo "$before") <(echo "$after") >&2 || true
        fail "$suite: the purged package left files"
    }

    SECONDS=0
    tar -C "$root/opt" -xzf dist/millstream-*-linux.tar.gz
    first_report "/$(cd "$root" && ls -d opt/millstream-*)/bin/millstream" /tmp/first
    echo "$suite: tarball: unpacked and reported in $SECONDS s"

    wheels
    SECONDS=0
    inside python3 -m venv /tmp/venv
    inside /tmp/venv/bin/pip install --quiet --no-index --find-links /tmp/wheels millstream
    inside /tmp/venv/bin/python -c '
import millstream
scenario = millstream.Scenario("10 Mbit/s", "edf", duration="1 s")
cbr = {"kind": "cbr", "bytes": 200, "rate": "80 kbit/s"}
scenario = scenario.stream("voice", period="20 ms", source=cbr)
row = scenario.run().streams.slice(0, 1).to_pylist()[0]
assert row["sent"] == 50, row
print(millstream.__version__)'
    echo "$suite: wheel: installed and simulated in $SECONDS s"
    rm -rf "$root"
done

# The image has no shell, and needs no system below it.
root=$target/roots/image
rm -rf "$root" "$target/roots/oci"
mkdir -p "$target/roots/oci"
tar -C "$target/roots/oci" -xf dist/millstream-*.oci.tar
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
umoci raw unpack --image "$target/roots/oci:$version" "$root"
entry=$(grep -ho '"Entrypoint":\[[^]]*\]' "$target"/roots/oci/blobs/sha256/* | head -1)
[[ $entry = '"Entrypoint":["/usr/bin/millstream"]' ]] || fail "image: its entry point is $entry"
mkdir -p "$root/tmp"
inside() { unshare --net chroot "$root" "$@"; }
SECONDS=0
first_report /usr/bin/millstream /tmp/first
echo "image: reported in $SECONDS s"
rm -rf "$root" "$target/roots/oci"
