# Sourced first by every script of this folder: finds the project, answers --help from the script's own header comment,
# and makes the environments when they are missing or stale. Installs nothing outside the project's folder.
# shellcheck shell=bash
set -euo pipefail
OZ0_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export OZ0_ROOT PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
cd "$OZ0_ROOT"

case "${1-}" in
    -h | --help)
        sed -n '2,/^[^#]/ s/^# \{0,1\}//p' "$OZ0_ROOT/scripts/$(basename "$0")"
        exit 0
        ;;
esac

say() { printf '%s\n' "$*" >&2; }

# Prints the Python to build on: OZ0_PYTHON, or the first of python3 and python3.N that is 3.11 or newer.
find_python() {
    local candidate
    for candidate in ${OZ0_PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            # Not the environment that PATH may name first, but the Python below it.
            "$candidate" -c 'import os, sys; print(os.path.realpath(sys._base_executable))'
            return
        fi
    done
    say "No Python 3.11 or newer was found (tried ${OZ0_PYTHON:-python3, python3.14 … python3.11})."
    say "Install one (Debian 12, Ubuntu 24.04: apt-get install python3 python3-venv), or name one in OZ0_PYTHON."
    return 1
}

# new_environment FOLDER: an empty virtual environment, by uv where it is there.
new_environment() {
    local python version
    python=$(find_python)
    rm -rf "$1"
    if command -v uv >/dev/null; then
        uv venv --quiet --python "$python" "$1"
        return
    fi
    if ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
        version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        say "$python has no venv module. The package that brings it:"
        say "    Debian, Ubuntu   apt-get install python${version}-venv (or python3-venv)"
        say "    Fedora, RHEL     dnf install python3"
        say "    Alpine           apk add python3 py3-pip"
        say "or install uv, which needs none."
        return 1
    fi
    "$python" -m venv "$1"
}

# install_into FOLDER ARGUMENTS...: pip install, by uv where it is there. Its output is shown only when it fails.
install_into() {
    local folder=$1 log
    shift
    mkdir -p build
    log=$(mktemp build/install.XXXXXX)
    if command -v uv >/dev/null; then
        uv pip install --python "$folder/bin/python" "$@" >"$log" 2>&1 || { cat "$log" >&2; return 1; }
    else
        "$folder/bin/python" -m pip install "$@" >"$log" 2>&1 || { cat "$log" >&2; return 1; }
    fi
    rm -f "$log"
}

# stamp_of FILES...: what an environment was made from; another place, Python or pin makes it stale.
stamp_of() {
    { printf '%s\n' "$OZ0_ROOT"; find_python; cat "$@"; } | sha256sum | cut -d ' ' -f 1
}

# with_environment FOLDER FILL FILES...: calls FILL FOLDER unless FOLDER was made from exactly these FILES.
# Two scripts at once do not meet: the second one waits for the lock and finds the work done.
with_environment() {
    local folder=$1 fill=$2 stamp
    shift 2
    stamp=$(stamp_of "$@")
    mkdir -p build
    exec 9>"build/lock${folder}"
    if command -v flock >/dev/null; then flock 9; fi
    if [ "$(cat "$folder/made-from" 2>/dev/null)" != "$stamp" ] || ! "$folder/bin/python" -c '' 2>/dev/null; then
        say "Making $folder (a minute or two, the first time)"
        rm -f "$folder/made-from"
        "$folder/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
            new_environment "$folder"
        "$fill" "$folder"
        printf '%s\n' "$stamp" >"$folder/made-from"
    fi
    exec 9>&-
}

fill_workspace() {
    install_into "$1" --no-deps -r constraints.txt
    install_into "$1" --no-deps --no-build-isolation -e shared -e proxy -e toolclient
}

fill_peers() {
    install_into "$1" --no-deps -r constraints-peers.txt
}

# The environment of development: everything of constraints.txt, and the three distributions, editable.
workspace_environment() {
    with_environment .venv fill_workspace \
        constraints.txt shared/pyproject.toml proxy/pyproject.toml toolclient/pyproject.toml
    export PATH="$OZ0_ROOT/.venv/bin:$PATH"
}

# The peers that system tests run as programs of their own (mitmproxy pins an older h11).
peers_environment() {
    with_environment .venv-peers fill_peers constraints-peers.txt
}
