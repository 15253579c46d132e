#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Which instruction set a pair takes: never one that the machine lacks, and the best that it has. On machines made up of
# CPUID bits (dispatch_program.c), on the CPUs that qemu knows, on this one; forced by the call, and by the compiler's
# command line. Left out on purpose: sets that the preprocessor alone decides about; test_targets.sh compiles those.
#
#   tests/targets/test_dispatch.sh             BUILD=build  ATTNGEN  ATTNRUN  CC=gcc  CLANG=clang (empty: no second)
set -u
cd "$(dirname "$0")/../.." || exit 3
. tests/checks.sh
export XDG_CACHE_HOME="${XDG_CACHE_HOME:-$build/cache}"
[ "$(uname -m)" = x86_64 ] || leave_out "everything: this machine is no x86-64, elsewhere the preprocessor decides"
"$attngen" --isa sse4,avx2,avx512,neon -o "$work" examples/tiny.layer || exit 1
"$attngen" --isa sse4,avx2,avxvnni,avx512 --set name=whole --set precision=i16 -o "$work" examples/tiny.layer || exit 1
"$attngen" --isa sse4,avx2,avxvnni,avx512,amx --set name=bytes --set precision=i8 -o "$work" examples/tiny.layer || exit 1

# ---- machines made up of bits ----

for cc in $compilers; do
    log=$work/made-up
    # at -O1, where clang 14 does not end over scalar rows that a loop loads before they are rounded
    for pair in "-DPAIR=\"tiny.c\" -DNAME=tiny -DPREFIX=TINY" "-DPAIR=\"whole.c\" -DNAME=whole -DPREFIX=WHOLE -DDOTS" \
        "-DPAIR=\"bytes.c\" -DNAME=bytes -DPREFIX=BYTES -DDOTS -DTILES"; do
        # shellcheck disable=SC2086 # words
        if "$cc" -std=c11 -O1 -Wall -Wextra -Wno-missing-field-initializers -Werror -I"$work" $pair -o "$work/made-up.bin" \
            tests/targets/dispatch_program.c >"$log" 2>&1 && "$work/made-up.bin" >"$log" 2>&1; then
            passed=$((passed + $(sed -n 's/ passed.*//p' "$log")))
        else
            cat "$log"
            result 1 "made-up machines with $cc, $pair"
        fi
    done
done

# ---- one set alone, by the compiler's command line ----

cat >"$work/names.c" <<'END'
#include <stdio.h>
#include "tiny.h"
static float w[64 * 64];
static _Alignas(64) unsigned char packed[TINY_PACKED_BYTES];
int main(void) /* the sets that are there, then whether the best of them can be had */
{
    const tiny_weights weights = {.w_q = w, .w_k = w, .w_v = w, .w_o = w};
    for (int isa = 1; isa < 32; isa++)
        if (tiny_isa_name((tiny_isa_id)isa))
            printf("%s ", tiny_isa_name((tiny_isa_id)isa));
    const int error = tiny_pack(packed, &weights, TINY_ISA_AUTO);
    puts(error == TINY_OK ? tiny_isa_name(tiny_isa(packed)) : error == TINY_ERROR_ISA ? "none" : "error");
}
END
cpu() { grep -m 1 '^flags' /proc/cpuinfo | grep -qw "$1"; }
has() { # ISA, as the kernel says
    case $1 in
    scalar) true ;;
    sse4) cpu sse4_1 ;;
    avx2) cpu avx2 && cpu fma ;;
    avx512) cpu avx512f && cpu avx512dq && cpu avx512bw && cpu avx512vl ;;
    esac
}
for cc in $compilers; do
    for isa in scalar sse4 avx2 avx512; do
        only=-DTINY_ONLY_ISA=TINY_ISA_${isa^^}
        "$cc" $strict -O2 "$only" -c -o "$work/only.o" "$work/tiny.c" >"$work/log" 2>&1 &&
            "$cc" -std=c11 -I"$work" -o "$work/only" "$work/names.c" "$work/only.o" >>"$work/log" 2>&1
        result $? "$cc $only: $(head -n 5 "$work/log")"
        want="$isa $(has $isa && echo $isa || echo none)"
        said=$("$work/only" 2>&1)
        [ "$said" = "$want" ]
        result $? "$cc $only: the program says '$said', not '$want'"
        size=$(size "$work/only.o" | awk 'NR == 2 { print $1 }')
        [ "$size" -lt 65536 ]
        result $? "$cc $only: $size bytes of code and constants, not less than 64 KiB"
    done
    # two roundings, whatever a flag lets the compiler fuse; but packing's test for NaN, whose sum is 0 or NaN anyway
    "$cc" -O2 -march=haswell -DTINY_ONLY_ISA=TINY_ISA_SSE4 -S -o "$work/only.s" "$work/tiny.c" 2>"$work/log"
    result $? "$cc -march=haswell does not compile sse4 alone: $(head -n 3 "$work/log")"
    ! awk '/^[a-z0-9_.]+:/ { function_ = $1 } /vfn?m(add|sub)/ && function_ !~ /^pack_/ { found = 1 } END { exit !found }' \
        "$work/only.s"
    result $? "$cc -march=haswell fuses the multiplications and additions of sse4"
    for only in TINY_ISA_NEON TINY_ISA_RVV TINY_ISA_NONSENSE avx2 2 ''; do # not for x86, not in the file, no name
        ! "$cc" -std=c11 -DTINY_ONLY_ISA=$only -fsyntax-only "$work/tiny.c" >"$work/log" 2>&1
        result $? "$cc compiles with -DTINY_ONLY_ISA=$only"
        grep -q 'error.*TINY_ONLY_ISA is none of TINY_ISA_SCALAR' "$work/log"
        result $? "$cc -DTINY_ONLY_ISA=$only fails for another reason than its #error: $(head -n 3 "$work/log")"
    done
done

${CC:-gcc} -std=c11 -O1 -I"$work" -o "$work/names" "$work/names.c" "$work/tiny.c" || exit 1

# ---- CPUs: this one, and those of qemu, which end a program at an instruction that they lack ----

vector=tests/vectors/narrow_padding
# cpu_takes ISA COMMAND…: a pair takes ISA, and every set that it does not refuse runs and is right
cpu_takes() {
    local isa=$1 said
    shift
    said=$("$@" "$work/names" 2>/dev/null)
    [ "${said##* }" = "$isa" ]
    result $? "$* takes '${said##* }', not $isa"
    set -- "$@" "$attnrun" run $vector.layer --in $vector.safetensors --isa all
    "$@" >"$work/log" 2>&1 && grep -q "^$isa: y differs" "$work/log"
    result $? "$*: $isa does not run: $(tail -n 3 "$work/log")"
}

best=scalar
for isa in sse4 avx2 avx512; do
    has $isa && best=$isa
done
cpu_takes $best env
[ $best = avx512 ] || skip "AVX-512 natively: this CPU has $best"

command -v qemu-x86_64 >/dev/null || leave_out "other CPUs: there is no qemu-x86_64"
while read -r isa model; do
    if ! qemu-x86_64 -cpu "$model" /bin/true >/dev/null 2>&1; then
        skip "$model: this qemu does not know it"
    elif [ "$isa" = avx2 ] && qemu-x86_64 -cpu "$model" /bin/true 2>&1 | grep -qi 'support.*avx2'; then
        skip "$model: this qemu has no AVX2"
    else
        cpu_takes "$isa" qemu-x86_64 -cpu "$model"
    fi
done <<'END'
scalar qemu64
scalar Conroe
sse4 Penryn
sse4 Nehalem
sse4 Westmere
sse4 SandyBridge
sse4 IvyBridge
avx2 Haswell
avx2 EPYC
sse4 Haswell,-fma
sse4 Haswell,-avx2
sse4 Haswell,-avx
sse4 Haswell,-xsave
END
for isa in avx2 avx512; do # refused, not run into
    qemu-x86_64 -cpu Nehalem "$attnrun" run $vector.layer --in $vector.safetensors --isa $isa >"$work/log" 2>&1
    grep -q "^$isa: skipped, this machine lacks it" "$work/log"
    result $? "Nehalem, --isa $isa: $(head -n 3 "$work/log")"
done
tally
