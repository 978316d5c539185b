# shellcheck shell=bash
# Sourced by scripts that need Python packages. Uses $target, the build folder.
#
# uv installs them in a tenth of pip's processor time. It does not read pip's settings, so pip
# installs them where these name an index, and where uv fails.
uv=uv==0.13.9
# Modules are compiled when they are first imported, unless this variable is set: then in every
# process.
unset PYTHONDONTWRITEBYTECODE

# python_environment FOLDER [PYTHON]: creates an empty virtual environment. As root, installs a
# missing python3-venv by apt.
python_environment() {
    local python=${2:-python3}
    if ! "$python" -c 'import ensurepip' 2>/dev/null; then
        if [[ $(id -u) != 0 ]]; then
            echo "error: $python has no venv; ask an administrator for the package python3-venv" >&2
            exit 1
        fi
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
            python3-venv >/dev/null
    fi
    "$python" -m venv --without-pip "$1"
}

# python_tools [PYTHON]: provides uv, and a pip for what uv does not do, $target/$uv/bin/pip.
python_tools() {
    [[ ! -x $target/$uv/bin/pip ]] || return 0
    "${1:-python3}" -m venv "$target/$uv"
    "$target/$uv/bin/pip" install --quiet --no-compile --disable-pip-version-check "$uv" || true
}

# python_packages FOLDER ARGUMENT...: installs packages into the environment, as `pip install
# ARGUMENT...` does.
python_packages() {
    local python=$1/bin/python tools=$target/$uv
    shift
    python_tools "$python"
    if [[ $("$tools/bin/pip" config list) != *index* ]] &&
        UV_CACHE_DIR=$tools/cache "$tools/bin/uv" pip install --quiet --python "$python" "$@"; then
        return
    fi
    "$tools/bin/pip" --python "$python" install --quiet --no-compile --disable-pip-version-check \
        "$@"
}
