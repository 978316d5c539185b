#!/usr/bin/env bash
# The compiler of `make test` and `make check` (RUSTC_WORKSPACE_WRAPPER): clippy compiles our tests,
# examples and benchmarks and denies warnings, so lints need no compilation of their own. Libraries
# and programs are compiled twice, for users and for their unit tests: clippy compiles the second,
# which has all of the first, and the plain compiler the first, as clippy keeps it from optimising
# before code generation. Unit tests and small test programs are not optimised: optimising them
# takes longer than running them. Long tests are optimised a little.
set -euo pipefail
is_test='' is_release='' name='' type=''
arguments=("$@")
for at in "${!arguments[@]}"; do
    case ${arguments[at]} in
    --test) is_test=1 ;;
    --crate-name) name=${arguments[at + 1]} ;;
    --crate-type) type=${arguments[at + 1]} ;;
    opt-level=3) is_release=1 ;;
    esac
done
case $name in
engine | flows_memory | reference | sim) level=1 ;;
*) level=0 ;;
esac
if [[ -n $is_test ]]; then
    for at in "${!arguments[@]}"; do
        case ${arguments[at]} in
        opt-level=[12]) arguments[at]=opt-level=$level ;;
        esac
    done
fi
if [[ -n $is_release || -z $name || $name = ___ ]]; then
    exec "${arguments[@]}"
fi
# Without unit tests: the Python module, build scripts, examples and benchmarks.
is_linted=$is_test
case $name/$type/${arguments[*]} in
_millstream/* | build_script_*) is_linted=1 ;;
*/bin/*examples/* | */bin/*benches/*) is_linted=1 ;;
esac
if [[ -z $is_linted ]]; then
    exec "${arguments[@]}" -D warnings
fi
exec clippy-driver "${arguments[@]}" -D warnings
