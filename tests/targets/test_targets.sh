#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Pairs on machines that this one is not: compiled without a warning by the target's compilers, then run under an emulator
# on the vectors of tests/vectors and tests/onnx, whose answers came from elsewhere, and checked against the reference. attnrun itself is
# cross-compiled for that, and starts the cross compiler on each pair; for WebAssembly, which can start nothing, the parts
# that `attnrun run` is made of are linked with each pair (tests/targets/wasi). What `attnrun selftest` writes here runs there
# too, as it would on a board, in the compiler's own dialect; where attnrun is not at home, in vectors' place. Left out on
# purpose: x86-64 with Linux; test_dispatch.sh and test_vectors.sh are at home there. And time: an emulator has its own.
#
#   tests/targets/test_targets.sh [TARGET…]    BUILD=build  ATTNGEN  ATTNRUN  JOBS=N  EVERYTHING=1: all vectors and all examples
#
# TARGET: names of the table below; all of them if not given.
set -u
cd "$(dirname "$0")/../.." || exit 3
. tests/checks.sh
export XDG_CACHE_HOME="${XDG_CACHE_HOME:-$build/cache}"
clang="${CLANG19:-clang-19} -Wno-unused-command-line-argument" # -fuse-ld=lld, where nothing is linked
arm=/usr/aarch64-linux-gnu riscv=/usr/riscv64-linux-gnu s390x=/usr/s390x-linux-gnu
rvv_compiler="$clang --target=riscv64-linux-gnu -march=rv64gcv -fuse-ld=lld"
wasm_compiler="$clang --target=wasm32-wasi -msimd128" relaxed="--experimental-wasm-relaxed-simd --no-liftoff"
x87_clang="$clang --target=i686-linux-gnu -march=i686 -mno-sse -fuse-ld=lld"
mingw=x86_64-w64-mingw32 # clang looks for gcc's libraries, but not where Debian puts them
mingw_clang="$clang --target=$mingw -L$(dirname "$($mingw-gcc -print-libgcc-file-name 2>/dev/null)")"
zig=${ZIG:-zig} # of the PyPI package ziglang: ZIG=python-zig

# name | sets that must be there | attnrun's build and compiler; -: none | compiler of the pairs | how programs are started;
# -: not at all
targets="
aarch64       | scalar neon         | aarch64-linux-gnu-gcc | aarch64-linux-gnu-gcc | qemu-aarch64 -L $arm
aarch64-clang | scalar neon         | aarch64-linux-gnu-gcc | $clang --target=aarch64-linux-gnu -fuse-ld=lld | qemu-aarch64 -L $arm
riscv64       | scalar              | riscv64-linux-gnu-gcc | riscv64-linux-gnu-gcc | qemu-riscv64 -L $riscv
rvv-128       | scalar rvv          | riscv64-linux-gnu-gcc | $rvv_compiler         | qemu-riscv64 -cpu rv64,v=true,vlen=128 -L $riscv
rvv-256       | scalar rvv          | riscv64-linux-gnu-gcc | $rvv_compiler         | qemu-riscv64 -cpu rv64,v=true,vlen=256 -L $riscv
wasm          | scalar wasm_simd128 | $wasm_compiler        | $wasm_compiler        | node --no-warnings tests/targets/wasi/run.mjs
s390x         | scalar              | -                     | s390x-linux-gnu-gcc   | qemu-s390x -L $s390x
i686-x87      | scalar              | -                     | i686-linux-gnu-gcc -march=i686 | env
i686-x87-clang | scalar             | -                     | $x87_clang            | env
windows-gcc   | scalar              | -                     | $mingw-gcc            | wine
windows-clang | scalar avx2         | -                     | $mingw_clang          | wine
windows-zig   | scalar avx2         | -                     | $zig cc -target x86_64-windows-gnu | wine
macos-zig     | scalar neon         | -                     | $zig cc -target aarch64-macos | -
macos-x86-zig | scalar avx2         | -                     | $zig cc -target x86_64-macos | -
"
# every kind of mask and scores, tails of vectors, a convolution, what is not finite; rotations and norms; types of
# weights
few="every_mask conv_padding nonfinite_seen narrow_none kinds/hf_gptj kinds/hf_phi_norm kinds/hf_bloom_odd
    kinds/hf_gemma2_window kinds/hf_gptoss_window kinds/hf_t5_enc kinds/d_chunks_paged_1 kinds/d_chunks_ring_1
    types_f16 types_i8_split types_i4_odd types_i4_cached cached_bf16_paged cached_f16_ring cached_i8_rows tensors_f16 tensors_bf16_heads
    precision_bf16 precision_i8 precision_i8_values precision_i8_narrow precision_i8_conv precision_i8_cached precision_i16
    precision_i16_fast"
# of these the ones that are compiled at -O1, the others at -O0, in a third of the time, but for x87; all at -O1 with
# EVERYTHING
optimised=" every_mask hf_phi_norm "
wasi_flags="-std=c11 -Wall -Wextra -Werror -D_GNU_SOURCE -Itests/targets/wasi -Igen -Iruntime -Itemplates -I$build/gen"
# the linker takes what `attnrun run` needs of these; tests/targets/wasi/main.c stands in for the others
wasi_sources=$(printf '%s\n' gen/*.c gen/*/*.c runtime/*.c runtime/*/*.c | grep -Ev '/(main|embed|attnrun|compile|process)\.c$')

asan="-fsanitize=address,undefined -fno-sanitize-recover=all"
ubsan="-fsanitize=undefined -fsanitize-undefined-trap-on-error" # needs no library

trim() { sed 's/^ *//; s/ *$//' <<<"$1"; }

# ---- one job ----

# A pair of all sets takes attngen three times as long as one of those that the target has; the selftest of $window is one.
sets() { if [ "${EVERYTHING:-}" ]; then echo all; else echo "${isas// /,}"; fi; }

# All sets of $isas said, and nothing amiss.
all_said() { # PATTERN, in which @ is the set's name
    local isa
    for isa in $isas; do
        grep -q "${1//@/$isa}" "$result.log" || return 1
    done
}

one_warnings() { # SPEC LEVEL
    mkdir "$result.d"
    "$ATTNGEN" --isa all -o "$result.d" "$1" &&
        $compiler $strict "$2" -c -o "$result.d/o" "$result.d"/*.c >"$result.log" 2>&1 || fail "$1 with $compiler $strict $2"
}

# A program of parts of attnrun and the pair
wasi_program() { # SPEC LEVEL
    local name
    name=$(sed -n 's/^name *= *//p' "$1")
    [ -n "$name" ] || name=$(basename "$1" .layer)
    mkdir "$result.d"
    # shellcheck disable=SC2086 # flags are words
    "$ATTNGEN" --isa "$(sets)" --shim -o "$result.d" "$1" &&
        $compiler $2 $wasi_flags "-DTABLE=${name}_table" -o "$result.exe" "$result.d/${name}_shim.c" "$result.d/$name.c" \
            tests/targets/wasi/main.c \
            -Wl,--start-lib "$work"/wasi/*.o -Wl,--end-lib -Wl,-z,stack-size=1048576
}

one_vector() { # SPEC LEVEL
    local tensors=${1%.layer}.safetensors
    [[ $1 = *precision_bf16* && $target = aarch64* ]] && set -- "$1" "$2 -march=armv8.2-a+bf16" # which has bfdot
    [[ $1 = *precision_bf16* && $target != aarch64* ]] && isas=scalar # no other set has such sums
    case $target:${1##*/} in # dot products of bytes, of two rows and columns or of one; precision_i8_conv has neither
    aarch64:precision_i8.layer) set -- "$1" "$2 -march=armv8.2-a+i8mm" ;;
    aarch64-clang:precision_i8.layer) set -- "$1" "$2 -march=armv8.2-a+dotprod" ;;
    esac
    # with dot products of bytes, which the baseline compiler of Node.js 20 gets wrong
    if [[ $emulator = node* && $1 = */precision_i8.layer ]] && node $relaxed -e 0 2>/dev/null; then
        set -- "$1" "$2 -mrelaxed-simd"
        emulator=${emulator/node /node $relaxed }
    fi
    if [[ $emulator = node* ]]; then
        wasi_program "$1" "$2" >"$result.log" 2>&1 || fail "$1 is not compiled by $compiler"
        $emulator "$result.exe" "$(realpath "$1")" --in "$(realpath "$tensors")" --isa "$(sets)" >"$result.log" 2>&1 || fail "$1 on $target"
    else
        CC=$compiler CFLAGS="$2 $strict" $emulator "$build/targets/$host/attnrun" run "$1" --in "$tensors" --isa "$(sets)" \
            >"$result.log" 2>&1 ||
            fail "CC='$compiler' CFLAGS='$2 $strict' $emulator $build/targets/$host/attnrun run $1 --in $tensors --isa $(sets)"
    fi
    all_said "^@: y differs" || fail "$1 on $target: not all of $isas"
}

# The pair and a program that holds what should come out; neither attnrun nor a file is there. Without -std.
one_selftest() { # SPEC LEVEL
    local isa all
    [[ $1 = *precision_bf16* ]] && isas=scalar # as for vectors
    [ "$1" = "$window" ] && all=all || all=$(sets)
    mkdir "$result.d"
    # shellcheck disable=SC2086 # flags are words
    "$ATTNGEN" --isa "$all" -o "$result.d" "$1" >"$result.log" 2>&1 &&
        "$ATTNRUN" selftest "$1" -o "$result.d/selftest_of_it.c" >>"$result.log" 2>&1 &&
        $compiler ${strict#* } $2 -o "$result.exe" "$result.d"/*.c >>"$result.log" 2>&1 || fail "the selftest of $1 with $compiler"
    [ "$emulator" = - ] && return
    for isa in '' $isas; do # all at once, and each that must be there
        [ -n "$isa" ] && [[ $emulator = node* ]] && continue
        # shellcheck disable=SC2086
        $emulator "$result.exe" $isa >"$result.log" 2>&1 && tr -d '\r' <"$result.log" | grep -qx ok ||
            fail "the selftest of $1 on $target $isa"
    done
}

# The same with faults looked for; at -O0, in a third of the time: all reads and writes of the text are still there.
sanitized() { # SPEC FLAGS
    mkdir "$result.d"
    # shellcheck disable=SC2086 # flags are words
    "$ATTNGEN" --isa "$(sets)" -o "$result.d" "$1" >"$result.log" 2>&1 &&
        "$ATTNRUN" selftest "$1" -o "$result.d/selftest_of_it.c" >>"$result.log" 2>&1 &&
        $compiler -std=c11 -O0 -g $2 -o "$result.exe" "$result.d"/*.c >>"$result.log" 2>&1 ||
        fail "the selftest of $1 with $compiler $2"
    $emulator "$result.exe" >"$result.log" 2>&1 && grep -qx ok "$result.log" ||
        fail "the selftest of $1 with $2 on $target"
}
one_asan() { sanitized "$1" "$asan"; }
one_ubsan() { sanitized "$1" "$ubsan"; }

one_check() { # SPEC OPTION…: at most 40 positions, as emulators are slow
    local n
    n=$(awk '$1 == "seq_len" { print $3 < 40 ? $3 : 40 }' "$1")
    set -- "$build/targets/$host/attnrun" check "$@" --isa "$(sets)" --batch 2 --n "$n"
    CC=$compiler CFLAGS=-O1 $emulator "$@" >"$result.log" 2>&1 || fail "CC='$compiler' CFLAGS=-O1 $emulator $*"
    all_said "^ok .* @ " || fail "$* on $target: not all of $isas"
}

row_of() { # TARGET → its variables
    IFS='|' read -r target isas host_compiler compiler emulator < <(grep "^$1 " <<<"$targets")
    target=$1 isas=$(trim "$isas") host_compiler=$(trim "$host_compiler") compiler=$(trim "$compiler")
    emulator=$(trim "$emulator") host=${host_compiler%% *}
}

if [ "${1:-}" = --one ]; then
    result=$work/results/$2 log=$work/results/$2.log
    row_of "$3"
    "one_$4" "${@:5}"
    echo "passed: $(printf '%-14s %-20s %s' "$target" "$isas" "$4")"
    rm -rf "$result.d" "$result.exe"
    exit 0
fi

# ---- which jobs ----

export ASAN_OPTIONS=detect_leaks=0 # a leak is looked for with ptrace, which emulators lack
export WINEPREFIX=$work/wine WINEDEBUG=-all
leave() { [ ! -d "$WINEPREFIX" ] || wineserver -k >/dev/null 2>&1; } # this prefix's alone
mkdir "$work/results"

# What the pairs are compiled and run with; says what is missing.
can_build() {
    local word missing=
    for word in "${host_compiler%% *}" "${compiler%% *}" "${emulator%% *}"; do
        [ "$word" = - ] || command -v "$word" >/dev/null || missing="$missing $word"
    done
    if [ -z "$missing" ]; then
        printf '#include <stdio.h>\nint main(void) { return puts("ran") < 0; }\n' >"$work/probe.c"
        # shellcheck disable=SC2086 # commands are words
        $compiler -o "$work/probe.exe" "$work/probe.c" >"$work/log" 2>&1 &&
            { [ "$emulator" = - ] || $emulator "$work/probe.exe" 2>"$work/log" | tr -d '\r' | grep -qx ran; } && return 0
        missing=" what it takes to compile and run hello.c: $(head -n 1 "$work/log")"
    fi
    skip "$target: there is no$missing"
    return 1
}

# attnrun for the target, or, for WASI, its parts. Lua is not needed for either.
make_runtime() {
    local source object missing result refused=()
    [ "$host" = - ] && return
    if [[ $emulator = node* ]]; then
        mkdir "$work/wasi"
        for source in $wasi_sources; do
            object=$work/wasi/${source//\//_}
            # shellcheck disable=SC2086 # a source that WASI is too small for may be one that is not needed
            $compiler -O0 $wasi_flags -c -o "$object.o" "$source" 2>"$object.errors" || refused+=("$source")
        done
        result=$work/wasi/probe
        wasi_program examples/tiny.layer -O0 >"$work/linked" 2>&1 && return
        missing=$(sed -n 's/.*undefined symbol: //p' "$work/linked" | sort -u | paste -sd '|')
        for source in "${refused[@]}"; do # what the linker lacks is defined there
            [ -n "$missing" ] && grep -qE "^[a-z].*\<($missing)\(" "$source" && cat "$work/wasi/${source//\//_}.errors"
        done
        cat "$work/linked"
        return 1
    else
        make -s -j "${JOBS:-1}" BUILD="$build/targets/$host" CC="$host_compiler" HOST_CC="${CC:-gcc}" CFLAGS=-O1 \
            "$build/targets/$host/attnrun"
    fi
}

# Registers of x87 are wider than floats, which shows where the optimiser keeps floats there
level_of() { # TARGET VECTOR
    local level=-O0
    [[ $1 = i686-x87* ]] && level=-O1
    [ -z "${EVERYTHING:-}" ] && [[ $optimised != *" $2 "* ]] || level=-O1
    echo $level
}

# Two compilers of one machine, and two widths of one compiler's registers, share the vectors, but for those at -O1. Where the
# first byte of a number is its highest, vectors of other types than f32 are what matters; whole numbers are left to
# that machine and to AArch64.
takes() { # TARGET VECTOR
    local number
    [ -z "${EVERYTHING:-}" ] && [[ $1 = s390x || $optimised != *" $2 "* ]] || return 0
    number=$(cksum <<<"$2")
    case $1:$2 in
    s390x:types_* | s390x:cached_* | s390x:tensors_* | s390x:precision_* | s390x:every_mask | aarch64:precision_i* | aarch64-clang:precision_i8 | \
        wasm:precision_i8 | wasm:precision_i8_cached) return 0 ;;
    s390x:* | *:precision_i*) return 1 ;;
    esac
    case $1 in
    aarch64 | rvv-128 | i686-x87 | windows-gcc) [ $((${number%% *} % 2)) -eq 0 ] ;;
    aarch64-clang | rvv-256 | i686-x87-clang | windows-clang) [ $((${number%% *} % 2)) -eq 1 ] ;;
    esac
}

if [ -n "${EVERYTHING:-}" ]; then
    own=$(ls tests/vectors/*.layer tests/vectors/{kinds,blocks,gradients,states}/*.layer tests/data/*.layer)
    tests/onnx/unpack.sh "$work/onnx" || exit 3
    vectors="$own $(for spec in "$work"/onnx/*.layer; do ! "$ATTNGEN" --explain "$spec" >/dev/null 2>&1 || echo "$spec"; done)"
    examples=$(ls examples/*.layer) narrow=
    export window=examples/window.layer
    warned="$examples $(ls tests/vectors/*.layer)"
    sanitized=$own
else
    vectors=$(for name in $few; do echo "tests/vectors/$name.layer"; done)
    # several vectors and a tail everywhere, also of 8 lanes; at the width of tiny emulators take three times as long
    examples=examples/tiny.layer narrow="--set d_model=36 --set h=3"
    export window=tests/vectors/window_causal_padding.layer # kws, window: a minute each in emulators
    warned=
    sanitized=tests/vectors/every_mask.layer
fi

for name in ${*:-$(sed -n 's/^\([a-z][^ ]*\) .*/\1/p' <<<"$targets")}; do
    grep -q "^$name " <<<"$targets" || { echo "$name: error: no such target; see the table in $0" >&2; exit 2; }
    row_of "$name"
    can_build || continue
    if ! make_runtime >"$work/log" 2>&1; then
        result 1 "attnrun for $target"
        head -n 30 "$work/log"
        continue
    fi
    native=$warned # attnrun there compiles vectors with these warnings
    [[ $host = - || $emulator = node* ]] && native=${warned:-examples/tiny.layer}
    for spec in $native; do
        job "$target" warnings "$spec" -O1
    done
    [ -n "${EVERYTHING:-}" ] && job "$target" warnings examples/tiny.layer -O3
    job "$target" selftest "$window" "$(level_of "$target" "")"
    for spec in $vectors; do
        [ "$host" = - ] && kind=selftest || kind=vector
        vector=$(basename "$spec" .layer)
        takes "$target" "$vector" || continue
        job "$target" $kind "$spec" "$(level_of "$target" "$vector")"
    done
    [ "$host" = - ] && continue
    sanitizer=ubsan
    # shellcheck disable=SC2086 # flags are words
    $compiler $asan -o "$work/probe" "$work/probe.c" >"$work/log" 2>&1 &&
        $emulator "$work/probe" >"$work/log" 2>&1 && sanitizer=asan # with UBSan
    for spec in $sanitized; do
        job "$target" $sanitizer "$spec"
    done
    [[ $emulator = node* ]] && continue # check needs memory that can be protected
    for spec in $examples; do
        # shellcheck disable=SC2086 # options
        job "$target" check "$spec" $narrow
    done
done

run_jobs
sed -n 's/^passed: //p' "$work/all" | sort | uniq -c | awk '{ count = $1; sub(/^ *[0-9]+ /, ""); print $0 ": " count }' # by target and check
tally
