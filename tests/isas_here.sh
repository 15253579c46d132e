#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The instruction sets that this machine can run, joined by commas, for --isa: those that attngen emits by itself, or
# with "all" every one. What cannot run need not be compiled. "all" too where nothing is known of the machine.
# $ISAS, if set, is the answer. Left out on purpose: avxvnni, which few pairs have; targets/test_avxvnni.sh runs it.
#
#   tests/isas_here.sh [all]

set -u
has() { for flag; do grep -m 1 '^flags' /proc/cpuinfo | grep -qw "$flag" || return 1; done; }

[ "${ISAS-}" ] && { echo "$ISAS"; exit 0; }
case $(uname -m) in
x86_64)
    [ -r /proc/cpuinfo ] || { echo all; exit 0; }
    isas=scalar
    [ "${1-}" = all ] && has pni ssse3 sse4_1 && isas=$isas,sse4
    has avx2 fma && isas=$isas,avx2
    has avx2 fma avx512f avx512dq avx512bw avx512vl && isas=$isas,avx512
    echo "$isas"
    ;;
aarch64) echo scalar,neon ;;
*) echo all ;;
esac
