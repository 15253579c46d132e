# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034
# What the scripts about attnrun sweep and merge begin with, from the root: . tests/commands/sweeps.sh
#
#   root, build, attnrun, work     work is here, and goes with the script; kernels are compiled with -O0
#   run STATUS ARGUMENT…           attnrun must end with that status; its output goes to out and err
#   quick                          options with which a point takes next to no time
. tests/checks.sh
export CFLAGS=-O0 XDG_CACHE_HOME="$build/cache"
excerpt=(head -n 30)
cd "$work" || exit 3

quick=(--isa scalar --seconds 0 --rounds 3)
run() { ends "$1" "$attnrun" "${@:2}"; }
