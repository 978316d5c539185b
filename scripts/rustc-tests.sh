#!/usr/bin/env bash
# The compiler of `make test` (RUSTC_WORKSPACE_WRAPPER): compiles unit tests and small test programs
# without optimisation. Unit tests need a second compilation of their crate, and optimising it takes
# longer than running them. Long tests keep the optimisation of their crate.
set -euo pipefail
is_test='' name=''
arguments=("$@")
for at in "${!arguments[@]}"; do
    case ${arguments[at]} in
    --test) is_test=1 ;;
    --crate-name) name=${arguments[at + 1]} ;;
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
exec "${arguments[@]}"
