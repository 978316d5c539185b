#!/usr/bin/env bash
# Builds the release into dist/: a Debian package, a static tarball, an OCI image, Python wheel and
# source distribution, crates, a list of components (CycloneDX) and SHA-256 sums. Two runs on one
# commit give equal bytes. Needs root to install missing tools by apt.
#
# Usage: dist.sh [PART...]: deb, tarball, image, wheel, crates, sbom; all by default. `image` needs
# `tarball`.
set -euo pipefail
cd "$(dirname "$0")/.."

[[ $# -gt 0 ]] || set -- deb tarball image wheel crates sbom
parts=" $* "
wants() { [[ $parts == *" $1 "* ]]; }
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
export CARGO_TARGET_DIR=$target
# All times in artefacts are that of the commit.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
# Paths in panic messages and in C libraries do not depend on the directory of the build.
flags="--remap-path-prefix=$PWD=/millstream"
flags+=" --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo"
export LIBBPF_SYS_EXTRA_CFLAGS="-ffile-prefix-map=${CARGO_HOME:-$HOME/.cargo}=/cargo"
export AWS_LC_SYS_CFLAGS=$LIBBPF_SYS_EXTRA_CFLAGS
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
machine=$(uname -m)
host=$(rustc -vV | sed -n 's/^host: //p')
name=millstream-$version-$machine-linux
staging=$target/staging
tools=$target/tools
mkdir -p dist "$staging" "$tools"

# need PACKAGE COMMAND: installs a Debian package unless its command exists.
need() {
    command -v "$2" >/dev/null && return
    [[ -n ${updated:-} ]] || apt-get update -qq
    updated=1
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$1" >/dev/null
}

# tool CRATE VERSION: installs a cargo subcommand.
tool() {
    grep -qsF "\"$1 $2 " "$tools/.crates2.json" ||
        cargo install "$1" --version "$2" --locked --quiet --root "$tools"
}

# Builds libpcap from Debian's source as a static library, without what it would find on this
# machine only.
static_libpcap() {
    local to=$target/static-libpcap
    need flex flex
    need bison bison
    if [[ ! -e $to/libpcap.a ]]; then
        rm -rf "$to"
        mkdir -p "$to/lists/partial" "$to/source"
        local suite
        # shellcheck disable=SC1091 # It defines VERSION_CODENAME.
        suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
        echo "deb-src http://deb.debian.org/debian $suite main" >"$to/sources.list"
        local options=(
            -o "Dir::Etc::SourceList=$to/sources.list" -o Dir::Etc::SourceParts=/dev/null
            -o "Dir::State::Lists=$to/lists" -o APT::Sandbox::User=
        )
        apt-get "${options[@]}" update -qq
        (cd "$to" && apt-get "${options[@]}" source -qq --download-only libpcap >/dev/null)
        tar -xf "$to"/libpcap_*.orig.tar.gz -C "$to/source" --strip-components=1
        (
            cd "$to/source"
            # Python's module is a shared library.
            CFLAGS="-O2 -fPIC -ffile-prefix-map=$to=/libpcap" ./configure --quiet \
                --disable-shared --disable-dbus --disable-rdma --disable-usb \
                --disable-bluetooth --without-{dag,dpdk,libnl,snf,turbocap}
            make -s libpcap.a
        ) >"$to/log" 2>&1 || { tail "$to/log" >&2; return 1; }
        cp "$to/source/libpcap.a" "$to/"
    fi
    export LIBPCAP_LIBDIR=$to
}

# Man pages, completions, units and examples, as they are installed.
shared_files() {
    local shared=$staging/shared unit
    rm -rf "$shared"
    mkdir -p "$shared/units" "$shared/doc"
    # The same profile as the package: nothing is built twice.
    RUSTFLAGS=$flags cargo run --profile dist --quiet --locked -p millstream-cli \
        --example manual -- "$shared/share"
    for unit in router media; do
        scripts/packaged-unit.sh "$unit" >"$shared/units/millstream-$unit.service"
    done
    cp -r examples packaging/grafana packaging/prometheus "$shared/doc/"
    rm "$shared"/doc/examples/*/*.service
    cp CHANGELOG.md README.md LICENSE-MIT LICENSE-APACHE "$shared/doc/"
    gzip -9n <CHANGELOG.md >"$shared/changelog.gz"
}

deb() {
    need dpkg-dev dpkg-shlibdeps
    need lintian lintian
    tool cargo-deb 3.8.0
    local address=maintainers@millstream.example.org
    printf '%s\n' "millstream ($version-1) unstable; urgency=medium" '' \
        '  * New release; changelog.gz lists the changes.' '' \
        " -- The Millstream authors <$address>  $(date -uR -d "@$SOURCE_DATE_EPOCH")" \
        >"$staging/changelog"
    RUSTFLAGS=$flags cargo build --profile dist --quiet --locked -p millstream-cli
    "$tools/bin/cargo-deb" deb --quiet --no-build --profile dist -p millstream-cli \
        --output "dist/millstream_${version}-1_$(dpkg --print-architecture).deb"
    lintian --fail-on error,warning --tag-display-limit 0 dist/*.deb
}

tarball() {
    local root=$staging/$name
    rm -rf "$root"
    mkdir -p "$root/bin"
    (
        static_libpcap
        # Not in the folder of Debian's libpcap.a, which needs D-Bus.
        cp "$(cc -print-file-name=libelf.a)" "$(cc -print-file-name=libz.a)" "$LIBPCAP_LIBDIR/"
        export LIBBPF_SYS_LIBRARY_PATH=$LIBPCAP_LIBDIR
        RUSTFLAGS="$flags -C target-feature=+crt-static" cargo build --profile dist --quiet \
            --locked -p millstream-cli --features static-attach --target "$host"
    )
    install "$target/$host/dist/millstream" "$root/bin/"
    if readelf --dynamic "$root/bin/millstream" | grep NEEDED; then
        echo "error: the program of the tarball is not static" >&2
        return 1
    fi
    cp -r "$staging/shared/share" "$staging/shared/units" "$root/"
    cp -r "$staging/shared/doc/." "$root/"
    # The program contains libelf, under the LGPL.
    cp /usr/share/doc/libelf-dev/copyright "$root/LICENSE-libelf"
    pack "$staging" "$name" | gzip -9n >"dist/$name.tar.gz"
}

# pack DIRECTORY NAME: writes a tar archive with the time of the commit and of no user.
pack() {
    tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
        --mode='u+rw,go+r,go-w' -C "$1" -cf - "$2"
}

image() {
    need umoci umoci
    local layout=$staging/oci:$version root=$staging/image when
    when=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
    rm -rf "$staging/oci" "$root"
    install -D "$staging/$name/bin/millstream" "$root/usr/bin/millstream"
    mkdir -p "$root/usr/share/doc/millstream" "$root/work"
    cp LICENSE-MIT LICENSE-APACHE "$staging/$name/LICENSE-libelf" "$root/usr/share/doc/millstream/"
    find "$root" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
    umoci init --layout "$staging/oci"
    umoci new --image "$layout"
    umoci insert --image "$layout" --history.created "$when" "$root" /
    umoci config --image "$layout" --history.created "$when" --created "$when" \
        --config.entrypoint /usr/bin/millstream --config.workingdir /work \
        --config.label "org.opencontainers.image.title=millstream" \
        --config.label "org.opencontainers.image.version=$version" \
        --config.label "org.opencontainers.image.licenses=MIT OR Apache-2.0"
    umoci gc --layout "$staging/oci"
    pack "$staging/oci" . >"dist/$name.oci.tar"
}

wheel() {
    # shellcheck disable=SC1091
    source scripts/python-env.sh
    (
        static_libpcap
        cd python
        maturin sdist --out ../dist 2>&1 | grep Built
        RUSTFLAGS=$flags maturin build --quiet --profile dist --locked --out ../dist \
            --compatibility manylinux_2_35 --auditwheel check
    )
}

# Checks that the crates of the simulator build from their packages alone.
crates() {
    local crate chosen=() built=$target/crates
    # cargo keeps what it unpacked and built of packages of this folder, also of another commit.
    rm -rf "$built"
    for crate in millstream millstream-sync millstream-traffic millstream-scenario \
        millstream-report millstream-sim; do
        chosen+=(-p "$crate")
        rm -rf "${CARGO_HOME:-$HOME/.cargo}"/registry/{cache,src}/-*/"$crate-$version"*
    done
    CARGO_TARGET_DIR=$built cargo publish --dry-run --quiet --locked --allow-dirty "${chosen[@]}"
    # A dry run keeps the packages in a folder of its own.
    CARGO_TARGET_DIR=$built cargo package --no-verify --quiet --locked --allow-dirty "${chosen[@]}"
    for crate in "${chosen[@]}"; do
        [[ $crate = -p ]] || cp "$built/package/$crate-$version.crate" dist/
    done
}

sbom() {
    tool cargo-cyclonedx 0.5.9
    "$tools/bin/cargo-cyclonedx" cyclonedx --quiet --format json --spec-version 1.5 \
        --manifest-path crates/millstream-cli/Cargo.toml --override-filename millstream
    sed "s|$PWD|/millstream|g" crates/millstream-cli/millstream.json \
        >"dist/millstream-$version.cdx.json"
    find crates conformance benches papers -name millstream.json -delete
}

if wants deb || wants tarball; then shared_files; fi
for part in deb tarball image wheel crates sbom; do
    if wants "$part"; then
        echo "building: $part ($SECONDS s so far)"
        "$part"
    fi
done
(cd dist && find . -type f ! -name SHA256SUMS -printf '%P\n' | sort | xargs sha256sum >SHA256SUMS)
ls -l dist
