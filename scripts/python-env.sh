# shellcheck shell=bash
# Source this file, in any folder. Creates target/python, the Python environment of the tests and
# the book, and puts it first in PATH. PYTHON selects the interpreter. Recreates the environment if
# the interpreter or the requirements change.
python=${PYTHON:-python3}
repository=$(realpath "${BASH_SOURCE[0]%/*}/..")
target=$(realpath -m "${CARGO_TARGET_DIR:-$repository/target}")
venv=$target/python

if ! "$python" -c 'import ensurepip' 2>/dev/null; then
    if [[ $(id -u) != 0 ]]; then
        echo "error: $python has no venv; ask an administrator for the package python3-venv" >&2
        exit 1
    fi
    apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
            python3-venv >/dev/null
fi

# The stamp identifies the interpreter and the requirements.
requirements=("$repository"/{python,docs}/requirements.txt)
stamp=$({ "$python" -VV; cat "${requirements[@]}"; } | sha256sum)
if [[ ! -e $venv/stamp || $(<"$venv/stamp") != "$stamp" ]]; then
    echo "creating a Python environment (once)"
    rm -rf "$venv"
    "$python" -m venv "$venv"
    for file in "${requirements[@]}"; do
        "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$file"
    done
    echo "$stamp" >"$venv/stamp"
fi
export PATH="$venv/bin:$PATH"
