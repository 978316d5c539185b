#!/usr/bin/env bash
# Checks the public API of the published crates against a commit by cargo-semver-checks: a change
# that breaks users needs a new minor version before 1.0.
#
# Usage: semver.sh [BASELINE]. BASELINE is the last tag by default, or the parent of the commit that
# set this version.
set -euo pipefail
cd "$(dirname "$0")/.."

tools=$PWD/target/tools
version=0.51.0
"$tools/bin/cargo-semver-checks" semver-checks --version 2>/dev/null | grep -qF "$version" ||
    cargo install cargo-semver-checks --version "$version" --locked --quiet --root "$tools"
set_by=$(git log -1 --format=%H -G '^version = ' -- Cargo.toml)
baseline=${1:-$(git describe --tags --abbrev=0 2>/dev/null || echo "$set_by^")}
chosen=()
for crate in millstream millstream-traffic millstream-scenario millstream-sim; do
    chosen+=(-p "$crate")
done
"$tools/bin/cargo-semver-checks" semver-checks --baseline-rev "$baseline" "${chosen[@]}"
