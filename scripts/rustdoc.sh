#!/usr/bin/env bash
# rustdoc for `make test`: writes the documentation of each library whose examples cargo tests.
#
# `cargo doc` would compile every dependency a second time, without code. Warnings are errors.
set -euo pipefail
rustdoc=$(rustc --print sysroot)/bin/rustdoc
arguments=("$@")
tests=
shared=()
while [[ $# -gt 0 ]]; do
    case $1 in
    --test) tests=1 ;;
    # Options of tests that have a value.
    --test-args | --test-runtool | --test-run-directory) shift ;;
    --no-run | --nocapture) ;;
    *) shared+=("$1") ;;
    esac
    shift
done
if [[ -n $tests ]]; then
    "$rustdoc" "${shared[@]}" -D warnings --out-dir "${CARGO_TARGET_DIR:-target}/doc"
fi
exec "$rustdoc" "${arguments[@]}"
