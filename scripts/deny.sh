#!/usr/bin/env bash
# Checks licences, bans and sources, and advisories if their database can be fetched.
set -euo pipefail
cd "$(dirname "$0")/.."
version=0.20.2
tool="$(pwd)/target/tools/bin/cargo-deny"
if ! [ -x "$tool" ] || [ "$("$tool" --version)" != "cargo-deny $version" ]; then
    echo "building cargo-deny $version (once)"
    # Unoptimised: cargo-deny runs for a second, but its optimised build takes minutes.
    CARGO_PROFILE_DEV_DEBUG=0 cargo install cargo-deny --version "$version" --locked --debug \
        --quiet --root target/tools --target-dir target/tools/build
    rm -rf target/tools/build
fi
"$tool" --log-level error check licenses bans sources
if "$tool" --log-level off fetch db >/dev/null 2>&1; then
    "$tool" --log-level error check --disable-fetch advisories
else
    echo "advisories NOT checked: the database cannot be fetched from here"
fi
