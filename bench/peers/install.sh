#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# install.sh VENV PYTHON [PEER[/FORMULATION]]...: makes the virtual environment of `make bench-peers` and installs the
# pinned versions of requirements/base.txt and of each named peer (none named: of all; models, of bench-models, is none, and
# ggml-native, which takes minutes to build, is installed where it is named). What is there already stays.
#
# A peer that cannot be installed is reported and left out: the benchmark then has a row that says so. Exit code 3: not
# even the base can be installed.
set -u
here=$(dirname "$0")
venv=$1 python=$2
shift 2

[ -x "$venv/bin/python" ] || "$python" -m venv "$venv" || {
    echo "bench-peers: $python cannot make a virtual environment (Debian: apt-get install python3-venv)" >&2
    exit 3
}
mkdir -p "$venv/installed"

# install NAME: what requirements/NAME.txt lists, once for each state of that file
install() {
    local wanted=$here/requirements/$1.txt done=$venv/installed/$1.txt
    [ -f "$wanted" ] || return 0
    cat "$wanted" "$here/requirements/constraints.txt" | cmp -s - "$done" && return 0
    echo "bench-peers: installing $(grep -v '^#' "$wanted" | tr '\n' ' ')"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -c "$here/requirements/constraints.txt" \
        -r "$wanted" || return
    cat "$wanted" "$here/requirements/constraints.txt" >"$done"
}

install base || exit 3
if [ $# -eq 0 ]; then
    for file in "$here"/requirements/*.txt; do
        name=$(basename "$file" .txt)
        [[ " constraints models ggml-native " == *" $name "* ]] || set -- "$@" "$name"
    done
fi
# shellcheck disable=SC2068 # words may be joined by commas
for peer in ${@//,/ }; do
    install "${peer%%/*}" || echo "bench-peers: ${peer%%/*} cannot be installed; its rows will say so" >&2
done
