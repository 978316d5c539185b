#!/usr/bin/env bash
# The Python package as its users get it: a wheel in a fresh environment, its tests, its types; the
# same wheel under the other Pythons that are here; the book, built.
# PYTHON chooses the interpreter; --bench also measures the batch path.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
venv=$target/python

if ! "$python" -c 'import ensurepip' 2>/dev/null; then
    if [[ $(id -u) != 0 ]]; then
        echo "error: $python has no venv; ask an administrator for the package python3-venv" >&2
        exit 1
    fi
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv >/dev/null
fi

# One environment for each interpreter and each set of requirements.
requirements=(python/requirements.txt docs/requirements.txt)
stamp=$({ "$python" -VV; cat "${requirements[@]}"; } | sha256sum)
if [[ ! -e $venv/stamp || $(<"$venv/stamp") != "$stamp" ]]; then
    echo "making a Python environment (once)"
    rm -rf "$venv"
    "$python" -m venv "$venv"
    for file in "${requirements[@]}"; do
        "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$file"
    done
    echo "$stamp" >"$venv/stamp"
fi
export PATH="$venv/bin:$PATH"

cargo build --release --quiet -p millstream-cli
rm -rf "$target/wheels/python"
profile=release
[[ ${1:-} == --bench ]] && profile=dist
(cd python && maturin build --quiet --profile "$profile" --out "$target/wheels/python" \
    --interpreter "$venv/bin/python")
pip install --quiet --disable-pip-version-check --no-deps --force-reinstall \
    "$target"/wheels/python/*.whl

export MILLSTREAM=$target/release/millstream
cd python
pages=(../scripts/{api,commands,concepts,keys,pages}.py ../docs/links.py)
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
    ../scripts/python-versions.sh "$target"/wheels/python/*.whl
fi
