#!/usr/bin/env bash
# The compiler of `make test` and `make check` (RUSTC_WORKSPACE_WRAPPER): clippy compiles our crates
# and denies warnings, so lints need no compilation of their own. Unit tests and small test programs
# are not optimised: unit tests need a second compilation of their crate, and optimising it takes
# longer than running them. Long tests keep the optimisation of their crate. Release builds have the
# plain compiler, as clippy keeps the compiler from optimising before code generation.
set -euo pipefail
is_test='' is_release='' name=''
arguments=("$@")
for at in "${!arguments[@]}"; do
    case ${arguments[at]} in
    --test) is_test=1 ;;
    --crate-name) name=${arguments[at + 1]} ;;
    opt-level=3) is_release=1 ;;
    esac
done
case $name in
engine | flows_memory | reference | sim) is_test='' ;;
esac
if [[ -n $is_test ]]; then
    for at in "${!arguments[@]}"; do
        [[ ${arguments[at]} != opt-level=1 ]] || arguments[at]=opt-level=0
    done
fi
if [[ -n $is_release || -z $name || $name = ___ ]]; then
    exec "${arguments[@]}"
fi
exec clippy-driver "${arguments[@]}" -D warnings
