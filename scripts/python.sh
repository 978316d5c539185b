#!/usr/bin/env bash
# Tests the Python package as users install it: a wheel in a fresh environment, its tests and types,
# the same wheel under the oldest Python, and the built book. PYTHON selects the
# interpreter; --bench measures the batch path, --long also checks the types by pyright. MILLSTREAM
# and MAKE_TRACES name programs that are already built, EXTENSION the native module.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/python-env.sh

if [[ -z ${MILLSTREAM:-} ]]; then
    cargo build --release --quiet -p millstream-cli
    MILLSTREAM=$target/release/millstream
fi
wheels=$target/wheels/python
rm -rf "$wheels"
if [[ -n ${EXTENSION:-} ]]; then
    # maturin would build the dependencies again, with the features of this package alone.
    unpacked=$target/wheels/unpacked
    rm -rf "$unpacked"
    mkdir -p "$unpacked/millstream" "$wheels"
    (cd python && maturin pep517 write-dist-info --metadata-directory "$unpacked" \
        --interpreter "$venv/bin/python" >/dev/null)
    cp python/millstream/{*.py,*.pyi,py.typed} "$unpacked/millstream"
    cp "$EXTENSION" "$unpacked/millstream/_millstream.abi3.so"
    python -m wheel pack --dest-dir "$wheels" "$unpacked" >/dev/null
else
    (cd python && maturin build --quiet --release --out "$wheels" \
        --interpreter "$venv/bin/python")
fi
python_packages "$venv" --no-deps --force-reinstall "$wheels"/*.whl

MILLSTREAM=$(realpath "$MILLSTREAM")
export MILLSTREAM
# Generated conformance traces. They are not in the repository.
export MILLSTREAM_TRACES=$target/traces
# OpenBLAS's threads spin while they wait for work, in every process that imports numpy.
export OPENBLAS_NUM_THREADS=1
if [[ -n ${MAKE_TRACES:-} ]]; then
    "$MAKE_TRACES" --generated "$MILLSTREAM_TRACES"
else
    cargo run --release --quiet -p millstream-reference --bin make-traces -- \
        --generated "$MILLSTREAM_TRACES"
fi
cd python
pages=(../scripts/{accessibility,api,commands,concepts,frames,instructions,keys}.py)
pages+=(../scripts/{pages,players,promises,soak}.py ../docs/links.py)
ruff format --quiet --check . "${pages[@]}"
ruff check --quiet . "${pages[@]}"
mypy --no-error-summary millstream examples tests benches "${pages[@]}"
if [[ ${1:-} == --long ]]; then
    pyright --pythonpath "$venv/bin/python" millstream examples benches
fi
pytest
pytest --doctest-modules --pyargs millstream
if [[ ${1:-} == --bench ]]; then
    python benches/batch.py
else
    ../scripts/python-versions.sh --oldest "$wheels"/*.whl
fi
