# shellcheck shell=bash
# Sourced by scripts that need Python packages. Uses $target, the build folder.
#
# uv installs them in a tenth of pip's processor time. It does not read pip's settings, so pip
# installs them where these name an index, and where uv fails.
uv=uv==0.13.9

# python_environment FOLDER [PYTHON]: creates an empty virtual environment. As root, installs a
# missing python3-venv by apt.
python_environment() {
    local python=${2:-python3} tools=$target/$uv
    if ! "$python" -c 'import ensurepip' 2>/dev/null; then
        if [[ $(id -u) != 0 ]]; then
            echo "error: $python has no venv; ask an administrator for the package python3-venv" >&2
            exit 1
        fi
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
            python3-venv >/dev/null
    fi
    if [[ ! -x $tools/bin/uv ]]; then
        "$python" -m venv "$tools"
        "$tools/bin/pip" install --quiet --no-compile --disable-pip-version-check "$uv"
    fi
    "$python" -m venv --without-pip "$1"
}

# python_packages FOLDER ARGUMENT...: installs packages into the environment, as `pip install
# ARGUMENT...` does. Modules are compiled when they are first imported.
python_packages() {
    local python=$1/bin/python tools=$target/$uv
    shift
    if ! "$tools/bin/pip" config list | grep -q 'index-url' &&
        UV_CACHE_DIR=$tools/cache "$tools/bin/uv" pip install --quiet --python "$python" "$@"; then
        return
    fi
    "$tools/bin/pip" --python "$python" install --quiet --no-compile --disable-pip-version-check \
        "$@"
}
