#!/usr/bin/env bash
# Runs quick checks: format, lints and unit tests of changed crates, and repository rules.
#
# Usage: check.sh [BASE]. A crate has changed if its files differ from the commit BASE; untracked
# files count. BASE is HEAD by default, or HEAD~1 if the working tree is clean. `make test` runs
# every test.
set -euo pipefail
cd "$(dirname "$0")/.."

base=${1:-HEAD}
if [ "$base" = HEAD ] && [ -z "$(git status --porcelain)" ]; then base=HEAD~1; fi
changed=$(git diff --name-only "$base"; git ls-files --others --exclude-standard)

declare -A crates=()
while read -r file; do
    case $file in
    crates/*/*) crates[$(cut -d/ -f2 <<<"$file")]=1 ;;
    papers/src/* | papers/Cargo.toml) crates[millstream-papers]=1 ;;
    conformance/*) crates[millstream-reference]=1 crates[millstream-sim]=1 ;;
    esac
done <<<"$changed"
for crate in "${!crates[@]}"; do
    # Skips removed crates.
    grep -qs "^name = \"$crate\"" crates/*/Cargo.toml papers/Cargo.toml conformance/*/Cargo.toml ||
        unset "crates[$crate]"
done

# Compiles as `make test` does.
export RUSTC_WORKSPACE_WRAPPER=$PWD/scripts/rustc-tests.sh

step() { printf '\n== %s (%d s so far)\n' "$1" "$SECONDS"; }

step "format"
cargo fmt --all --check

packages=()
for crate in "${!crates[@]}"; do packages+=(-p "$crate"); done
if [ "${#packages[@]}" -gt 0 ]; then
    step "lints of ${!crates[*]}"
    cargo clippy "${packages[@]}" --all-targets -- -D warnings

    step "unit tests of ${!crates[*]}"
    for crate in "${!crates[@]}"; do
        # These crates have no library.
        case $crate in
        millstream-cli | millstream-papers) cargo test -p "$crate" --bins ;;
        *) cargo test -p "$crate" --lib ;;
        esac
    done
fi
if [ -n "${crates[millstream]:-}" ]; then
    step "the engine's laws"
    cargo test -p millstream --test engine laws
fi

step "repository rules (millstream-tidy)"
cargo test -p millstream-tidy

echo
echo "make check passed: $(wc -l <<<"$changed") changed files; make test runs everything"
