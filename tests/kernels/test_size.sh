#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The code of one instruction set stays under 64 KiB with gcc -O2 and clang -O2, under 20 KiB with --size small. The
# stack that is used stays within what the banner states, and is at least an eighth of it (of the figure for -O0: a
# twelfth, as compilers differ fourfold there). Left out on purpose: speed; `make bench-size` draws the table.
#
#   tests/kernels/test_size.sh          a sample: five examples at -O2, each size by one compiler, in turn; of three layers
#                                       each size at -O0 or -O3, in turn
#   tests/kernels/test_size.sh all      every example, every level; `make test-compilers`
#                               ATTNGEN  CC=gcc  CLANG=clang  JOBS=N  LAYERS="tiny gpt2": of the examples
#                               COMPILERS="gcc-11 clang-19": more of them, for the stack
set -u
cd "$(dirname "$0")/../.." || exit 3
. tests/checks.sh
few="examples/tiny tests/vectors/every_mask tests/vectors/conv_cross_padding"

# ---- one job: a spec, a size, a compiler and its level ----

# measure LEVEL COMPILER: the stack that each instruction set uses, where that is what is asked
measure() {
    : >"$place/stack"
    [ "$kind" = code ] && return
    "$2" "$1" -std=gnu11 -I"$place" -DNAME="$name" -DPREFIX="$prefix" -DHEADER="\"$name.h\"" -o "$place/driver" \
        "$root/tests/kernels/emitted_driver.c" "$place/${name}_shim.c" "$place/$name.o" -lpthread && "$place/driver" >"$place/stack"
}

# one ID KIND SPEC SIZE COMPILER LEVEL
one() {
    kind=$2 name=$(basename "$3" .layer) prefix=$(basename "$3" .layer | tr '[:lower:]' '[:upper:]')
    place=$work/$1
    {
        mkdir "$place" && "$ATTNGEN" --size "$4" --shim -o "$place" "$root/$3.layer" &&
            "$5" "$6" -std=c11 -c -o "$place/$name.o" "$place/$name.c" &&
            "$root/bench/size/bytes.sh" "$place/$name.o" >"$place/bytes" && measure "$6" "$5"
    } >"$place.log" 2>&1 || {
        echo "FAILED: $3 --size $4, $5 $6: $(tail -n 3 "$place.log" "$place/stack")"
        return
    }
    # a line for each instruction set: what is said and what is so
    awk -v kind="$kind" -v size="$4" -v what="$3 --size $4, $5 $6" -v compiler="$5" -v level="$6" '
        function verdict(good, text) { print (good ? "passed: " : "FAILED: ") what ", " isa ": " text }
        FILENAME ~ /bytes$/ { bytes[$1] = $2; next }
        FILENAME ~ /stack$/ { stack[$1] = $2; next }
        /^ \*   [a-z0-9_]+ +[0-9]+ +[0-9]+$/ && kind == "code" {
            isa = $2
            so = bytes[isa]
            max = (size == "small" ? 20 : 64) * 1024
            verdict(isa !~ /scalar|avx/ || (so > 0 && so + bytes["shared"] < max),
                    so " + " bytes["shared"] " bytes of code, less than " max)
        }
        /^ \*   [a-z0-9_]+ +[0-9]+ +[0-9]+$/ && kind == "stack" {
            isa = $2
            said = level == "-O0" ? $4 : $3
            min = said / (level == "-O0" ? 12 : 8) # some compilers keep a transposition in registers
            if (isa in stack)
                verdict(stack[isa] <= said && stack[isa] >= min, "stack of " stack[isa] " bytes, at most " said " said")
            else
                print "skipped: " what ", " isa ": this machine lacks it"
        }
        /^ \*\// { exit }
    ' "$place/bytes" "$place/stack" "$place/$name.c"
    rm -rf "$place"
}

if [ "${1-}" = --one ]; then
    shift
    one "$@"
    exit 0
fi

# ---- which jobs ----

for cc in ${COMPILERS-}; do
    command -v "$cc" >/dev/null && compilers="$compilers $cc" || echo "no $cc here"
done

layers=${LAYERS:-tiny kws gpt2 wide_728 conv_merge} levels= turn=0 pairs=0
if [ "${1-}" = all ]; then
    layers=${LAYERS:-$(for spec in "$root"/examples/*.layer; do basename "$spec" .layer; done)}
    levels="-O0 -O1 -O3 -Os"
fi
for cc in $compilers; do
    turn=$((turn + 1)) pairs=$((pairs + 1)) # the next begins with the other level, and with the other layers
    for size in fast small; do
        kind=code
        case " ${COMPILERS-} " in *" $cc "*) kind=stack ;; esac # the estimates are of one gcc and one clang
        for name in $layers; do
            pairs=$((pairs + 1))
            [ $kind = code ] && { [ "$levels" ] || [ $((pairs % 2)) -eq 0 ]; } &&
                job code "examples/$name" $size "$cc" -O2
        done
        for name in $few; do
            turn=$((turn + 1))
            for level in ${levels:-$((turn % 2 * 3))}; do job stack "$name" $size "$cc" "-O${level#-O}"; done
        done
    done
done
run_jobs
tally
