# shellcheck shell=bash
# Source this file, in any folder. Creates target/python, the Python environment of the tests and
# the book, and puts it first in PATH. PYTHON selects the interpreter. Recreates the environment if
# the interpreter or the requirements change.
python=${PYTHON:-python3}
repository=$(realpath "${BASH_SOURCE[0]%/*}/..")
target=$(realpath -m "${CARGO_TARGET_DIR:-$repository/target}")
venv=$target/python
source "$repository/scripts/python-packages.sh"

# The stamp identifies the interpreter and the requirements.
requirements=("$repository"/{python,docs}/requirements.txt)
stamp=$({ "$python" -VV; cat "${requirements[@]}"; } | sha256sum)
if [[ ! -e $venv/stamp || $(<"$venv/stamp") != "$stamp" ]]; then
    echo "creating a Python environment (once)"
    rm -rf "$venv"
    python_environment "$venv" "$python"
    for file in "${requirements[@]}"; do
        python_packages "$venv" -r "$file"
    done
    echo "$stamp" >"$venv/stamp"
fi
export PATH="$venv/bin:$PATH"
