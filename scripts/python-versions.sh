#!/usr/bin/env bash
# Tests one wheel under every supported Python, each in a fresh environment: the README's program
# and the tests that need only the wheel. Searches PATH and the directories of pyenv and uv, and
# reports missing versions. --all makes a missing version an error, --oldest tests the oldest only.
# Usage: python-versions.sh [--all] [--oldest] WHEEL
set -euo pipefail
cd "$(dirname "$0")/.."
all='' versions=(3.10 3.11 3.12 3.13)
while [[ ${1:-} == --* ]]; do
    case $1 in
    --all) all=1 ;;
    --oldest) versions=("${versions[0]}") ;;
    *) echo "usage: python-versions.sh [--all] [--oldest] WHEEL" >&2; exit 2 ;;
    esac
    shift
done
wheel=$(realpath "${1:?a wheel}")
pytest=$(grep '^pytest==' python/requirements.txt)
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")

# Prints the interpreter of this version, or nothing.
interpreter() {
    local candidate
        for candidate in "$(command -v "python$1")" \
            "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/python \
        "${XDG_DATA_HOME:-$HOME/.local/share}"/uv/python/cpython-"$1".*/bin/python; do
        if [[ -x $candidate ]] && "$candidate" -c "import ensurepip, sys
sys.exit(sys.version_info[:2] != tuple(map(int, '$1'.split('.'))))" 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
}

missing=()
for version in "${versions[@]}"; do
    python=$(interpreter $version)
    if [[ -z $python ]]; then
        missing+=("$version")
        continue
    fi
    venv=$target/python-$version
    rm -rf "$venv"
    "$python" -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check "$wheel" "$pytest"
    printf '%s: ' "$("$venv/bin/python" -V)"
    (cd python && "$venv/bin/pytest" tests/test_schedule.py tests/test_scheduler.py \
        tests/test_sweep.py "tests/test_book.py::test_python_runs_word_by_word[README.md]")
    rm -rf "$venv"
done
if [[ ${#missing[@]} -gt 0 ]]; then
    echo "not installed, not tested: Python ${missing[*]}"
    [[ -z $all ]]
fi
