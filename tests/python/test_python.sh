#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The Python module, from the checkout, with the programs that make built. Plain python3 does; what needs numpy is skipped
# without it, and so is what needs torch. make test-python PYTHON= is for one that has both.
#
#   tests/python/test_python.sh [NAME…]    ATTNGEN, ATTNRUN, CC, PYTHON; modules test_NAME.py, all if none is named
set -u
cd "$(dirname "$0")/../.." || exit 3
. tests/checks.sh
python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null || leave_out "no python3 of version 3.9 or later"

export PYTHONPATH=$PWD/packaging/python PYTHONDONTWRITEBYTECODE=1 XDG_CACHE_HOME=$work/cache CC=${CC:-gcc}
"$python" tests/python/every.py "$@" | tee "$work/log"
read -r p _ f _ s _ < <(tail -n 1 "$work/log")
passed=$((passed + ${p:-0})) failed=$((failed + ${f:-1})) skipped=$((skipped + ${s:-0}))
check "lines of the module and its tests" narrow packaging/python/*.py packaging/python/attngen/*.py tests/python/*.py
tally
