#!/usr/bin/env bash
# Installs the C library under target/c and runs the book's example with it, found by pkg-config:
# with the shared library, then with the static one.
set -euo pipefail
cd "$(dirname "$0")/.."
prefix=$PWD/target/c
rm -rf "$prefix"
PROFILE=dev scripts/c-library.sh "$prefix"
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
# The flags as words.
read -ra shared < <(pkg-config --cflags --libs millstream)
read -ra static < <(pkg-config --static --cflags --libs millstream)
crate=crates/millstream-c
cc -std=c11 "$crate/examples/link.c" "${shared[@]}" -o "$prefix/link"
LD_LIBRARY_PATH=$prefix/lib "$prefix/link" | diff - "$crate/examples/link.txt"
rm "$prefix"/lib/libmillstream.so*
cc -std=c11 "$crate/examples/link.c" "${static[@]}" -o "$prefix/link"
"$prefix/link" | diff - "$crate/examples/link.txt"
