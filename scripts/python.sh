#!/usr/bin/env bash
# Tests the Python package as users install it: a wheel in a fresh environment, its tests and types,
# the same wheel under the oldest Python, and the built book. PYTHON selects the
# interpreter; --bench measures the batch path. PROFILE is the cargo profile of the build.
# MILLSTREAM and MAKE_TRACES name programs that are already built.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/python-env.sh

profile=${PROFILE:-release}
if [[ -z ${MILLSTREAM:-} ]]; then
    cargo build --profile "$profile" --quiet -p millstream-cli
    MILLSTREAM=$target/${profile/dev/debug}/millstream
fi
rm -rf "$target/wheels/python"
(cd python && maturin build --quiet --profile "$profile" --out "$target/wheels/python" \
    --interpreter "$venv/bin/python")
pip install --quiet --disable-pip-version-check --no-deps --force-reinstall \
    "$target"/wheels/python/*.whl

MILLSTREAM=$(realpath "$MILLSTREAM")
export MILLSTREAM
# Generated conformance traces. They are not in the repository.
export MILLSTREAM_TRACES=$target/traces
if [[ -n ${MAKE_TRACES:-} ]]; then
    "$MAKE_TRACES" --generated "$MILLSTREAM_TRACES"
else
    cargo run --profile "$profile" --quiet -p millstream-reference --bin make-traces -- \
        --generated "$MILLSTREAM_TRACES"
fi
cd python
pages=(../scripts/{accessibility,api,commands,concepts,frames,instructions,keys}.py)
pages+=(../scripts/{pages,players,promises,soak}.py ../docs/links.py)
ruff format --quiet --check . "${pages[@]}"
ruff check --quiet . "${pages[@]}"
mypy --no-error-summary millstream examples tests benches "${pages[@]}"
pyright --pythonpath "$venv/bin/python" millstream examples benches >"$target/pyright.log" ||
    { cat "$target/pyright.log"; exit 1; }
pytest
pytest --doctest-modules --pyargs millstream
if [[ ${1:-} == --bench ]]; then
    python benches/batch.py
else
    ../scripts/python-versions.sh --oldest "$target"/wheels/python/*.whl
fi
