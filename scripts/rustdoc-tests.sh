#!/usr/bin/env bash
# The rustdoc of `make test` (RUSTDOC): runs a library's documentation tests, then documents the
# library and denies warnings, such as broken links. The tests' arguments name all dependencies as
# they were built; `cargo doc` would check each of them again.
set -euo pipefail
rustdoc "$@"
is_test=''
arguments=()
while [[ $# -gt 0 ]]; do
    case $1 in
    --test) is_test=1 ;;
    --test-args | --test-run-directory) shift ;;
    *) arguments+=("$1") ;;
    esac
    shift
done
[[ -z $is_test ]] ||
    exec rustdoc "${arguments[@]}" -D warnings --out-dir "${CARGO_TARGET_DIR:-target}/doc-of-tests"
