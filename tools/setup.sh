#!/usr/bin/env bash
# Sees to it that there is a uv: the one on PATH, or one of our own in the folder given.
set -euo pipefail

folder=${1:?usage: tools/setup.sh FOLDER}

if command -v uv >/dev/null; then
    exit 0
fi
if ! python3 -m venv --help >/dev/null 2>&1 || ! python3 -c 'import ensurepip' 2>/dev/null; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "python3 has no venv module: installing Debian's python3-venv" >&2
        apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends python3-venv
    else
        echo "uv is missing, and python3 has no venv module to install it with." >&2
        echo "Install one of the two: apt-get install python3-venv, or https://docs.astral.sh/uv/" >&2
        exit 1
    fi
fi
echo "uv is missing: installing it into $folder" >&2
python3 -m venv "$folder"
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check 'uv>=0.8'
"$folder/bin/uv" --version
