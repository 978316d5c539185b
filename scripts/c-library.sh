#!/usr/bin/env bash
# Builds the C library and installs it: lib/libmillstream.so, its versions and libmillstream.a,
# include/millstream.h, lib/pkgconfig/millstream.pc.
#
# Usage: [DESTDIR=ROOT] scripts/c-library.sh PREFIX. PREFIX is where programs find the library;
# DESTDIR is put before it, for packages.
set -euo pipefail
if [[ $# -ne 1 || $1 != /* ]]; then
    echo "usage: [DESTDIR=ROOT] scripts/c-library.sh PREFIX (an absolute path)" >&2
    exit 2
fi
prefix=$1
to=${DESTDIR:-}$prefix
cd "$(dirname "$0")/.."
crate=crates/millstream-c
profile=${PROFILE:-dist}
cargo build --quiet --locked --profile "$profile" -p millstream-c
built=${CARGO_TARGET_DIR:-target}/${profile/#dev/debug}

number() { sed -n "s/^pub const MS_ABI_$1: u32 = \(.*\);/\1/p" "$crate/src/version.rs"; }
major=$(number MAJOR)
version=$major.$(number MINOR).$(number PATCH)
install -d "$to/lib/pkgconfig" "$to/include"
install -m 755 "$built/libmillstream_c.so" "$to/lib/libmillstream.so.$version"
ln -sf "libmillstream.so.$version" "$to/lib/libmillstream.so.$major"
ln -sf "libmillstream.so.$major" "$to/lib/libmillstream.so"
install -m 644 "$built/libmillstream_c.a" "$to/lib/libmillstream.a"
install -m 644 "$crate/include/millstream.h" "$to/include/"
# The system's libraries of Rust's standard library, for static programs.
sed "s|@PREFIX@|$prefix|; s|@VERSION@|$version|; s|@PRIVATE@|-lpthread -ldl -lm|" \
    "$crate/millstream.pc.in" >"$to/lib/pkgconfig/millstream.pc"
