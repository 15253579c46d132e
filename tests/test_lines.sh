#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Lines of templates and of both programs: at most 120 columns, no blanks at their ends. Left out on purpose: emitted
# text, tests/kernels/test_golden.sh looks at that.
#
#   tests/test_lines.sh
set -u
cd "$(dirname "$0")/.." || exit 3
unbuilt=yes
. tests/checks.sh
log=$work/log

# ---- the check itself finds what it is for, and counts characters ----

wide() { ! narrow "$1"; }
printf '%120s\n%s\n' x "$(printf '\303\241%.0s' {1..120})" >"$work/good"
printf '%121s\n' x >"$work/long"
printf 'x \n' >"$work/blank"
check "120 columns are narrow" narrow "$work/good"
check "121 columns are not" wide "$work/long"
check "a line that ends in a blank is not" wide "$work/blank"

# ---- the sources ----

mapfile -t files < <(find templates gen runtime -type f -regextype posix-extended -regex '.*\.(in|c|h|lua)' | sort)
check "there are templates and sources" test ${#files[@]} -gt 150
for file in "${files[@]}"; do
    check "$file: at most 120 columns, no blanks at the ends" narrow "$file"
done

tally
