#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What attngen --split writes: the code of the single file, in one file for each instruction set. No warnings, the same bits
# on each set of the machine, -DNAME_ONLY_ISA, -DNAME_PACK_ONLY and the #errors in each file, files of two runs refused, no
# symbol for others but the interface, several layers in one program, other targets, rules, all files or none. Left out on
# purpose: whether the numbers are right; the tests of the single file ask that.
#
#   tests/kernels/test_split.sh      ATTNGEN=build/attngen  CC=gcc  CLANG=clang  JOBS=N
set -u
cd "$(dirname "$0")/../.." || exit 3
. tests/checks.sh

# ---- one job ----

upper() { echo "$1" | tr '[:lower:]' '[:upper:]'; }

# FOLDER COMPILER AND FLAGS: each .c of the folder's into $result.d
compile() {
    local folder=$1 file
    shift
    rm -rf "$result.d"
    mkdir "$result.d"
    for file in "$folder"/*.c; do
        "$@" -c -o "$result.d/$(basename "$file" .c).o" "$file" >"$log" 2>&1 || fail "$file with $*"
        [ ! -s "$log" ] || fail "$file with $* says something"
    done
}

# FOLDER NAME COMPILER AND FLAGS: what emitted_driver.c prints of its .c files, in $log
drive() {
    local folder=$1 name=$2
    shift 2
    # shellcheck disable=SC2086 # flags are words
    compile "$folder" "$@" $strict
    "$@" -I"$folder" -DALONE -DNAME="$name" -DPREFIX="$(upper "$name")" -DHEADER="\"$name.h\"" -o "$result.program" \
        "$root/tests/kernels/emitted_driver.c" "$work/shim/$name/${name}_shim.c" "$result.d"/*.o >"$log" 2>&1 || fail "emitted_driver of $folder with $*"
    "$result.program" >"$log" 2>&1 || fail "emitted_driver of $folder with $* ends with $?"
}

# The checksums of each set that the machine has, then of each alone
one_bits() { # NAME COMPILER AND FLAGS
    local name=$1 isa
    shift
    drive "$work/single/$name" "$name" "$@"
    cp "$log" "$result.single"
    drive "$work/split/$name" "$name" "$@"
    cmp -s "$log" "$result.single" || fail "$name split has other bits than the single file with $*"
    [ "$(cut -d' ' -f1 "$log" | paste -sd,)" = "$sets" ] || [ "$sets" = all ] || fail "not what $sets computes"
    for isa in $(cut -d' ' -f1 "$result.single"); do
        drive "$work/split/$name" "$name" "$@" "-D$(upper "${name}_ONLY_ISA=${name}_ISA_$isa")"
        grep -x "$isa .*" "$result.single" | cmp -s - "$log" || fail "$name split, $isa alone, has other bits with $*"
    done
}

# What other programs see of a library is the same; what its files see of each other is hidden, and begins with NAME_.
one_symbols() { # NAME COMPILER AND FLAGS
    local name=$1 layout
    shift
    for layout in single split; do
        compile "$work/$layout/$name" "$@" -O0 -std=c11 -fPIC
        "$@" -shared -o "$result.so" "$result.d"/*.o >"$log" 2>&1 || fail "a library of $name with $*"
        nm -D --defined-only "$result.so" | cut -d' ' -f2- >"$result.$layout"
    done
    cp "$result.split" "$log"
    grep -q " ${name}_forward\$" "$log" && cmp -s "$log" "$result.single" || fail "a library of split $name with $* shows other symbols"
    compile "$work/split/$name" "$@" -O1 -std=c11 -fno-stack-protector -fno-pic # it chooses what it calls
    nm -P "$result.d"/*.o >"$log"
    awk -v prefix="${name}_" '
        /:$/ { next }
        $2 ~ /[A-Z]/ && index($1, prefix) != 1 && ($2 != "U" || ($1 != "memcpy" && $1 != "memset")) { bad = 1 }
        $2 ~ /[BbDdCcVv]/ { bad = 1 }
        $2 == "T" { own++ }
        END { exit bad || own == 0 }' "$log" || fail "symbols of split $name with $*"
}

# To pack alone: the interface is the single file's, and the files of the sets are empty.
one_packing() { # NAME COMPILER AND FLAGS
    local name=$1 layout
    shift
    for layout in single split; do
        # shellcheck disable=SC2086
        compile "$work/$layout/$name" "$@" $strict "-D$(upper "$name")_PACK_ONLY"
        nm -P --defined-only --extern-only "$result.d/$name.o" | cut -d' ' -f1 >"$result.$layout"
        rm "$result.d/$name.o"
    done
    cp "$result.split" "$log"
    grep -q "^${name}_pack\$" "$log" && cmp -s "$log" "$result.single" || fail "$name to pack alone with $*"
    nm -P "$result.d"/*.o 2>/dev/null | grep -v ':$' >"$log"
    [ ! -s "$log" ] || fail "$name to pack alone with $*: a set's file has something"
}

# FOLDER NAME TEXT COMPILER AND FLAGS: each .c is refused with that text
refused() {
    local folder=$1 name=$2 text=$3 file
    shift 3
    for file in "$folder/$name".c "$folder/$name"_*.c; do
        "$@" -Wfatal-errors -fsyntax-only "$file" >"$log" 2>&1 && fail "$file compiles with $*"
        grep -q "error.*$text" "$log" || fail "$file with $* fails for another reason"
    done
}

one_errors() { # NAME COMPILER AND FLAGS
    local name=$1
    shift
    refused "$work/split/$name" "$name" 'needs IEEE arithmetic' "$@" -ffast-math
    refused "$work/split/$name" "$name" 'is none of' "$@" "-D$(upper "$name")_ONLY_ISA=$(upper "$name")_ISA_RVV"
}

# Each file in turn is of another run: those that depend on it are refused.
one_torn() { # OTHER COMPILER AND FLAGS
    local other=$1 file from="copy all files of one run"
    shift
    for file in "$work"/split/tiny/*; do
        rm -rf "$result.t"
        cp -r "$work/split/tiny" "$result.t"
        cp "$work/torn/$other/$(basename "$file")" "$result.t"
        case $file in
        *.h) refused "$result.t" tiny "$from" "$@" ;;
        *)
            "$@" -Wfatal-errors -fsyntax-only "$result.t/$(basename "$file")" >"$log" 2>&1 && fail "$file of two runs compiles with $*"
            grep -q "error.*$from" "$log" || fail "$* does not say what is wrong with $file of two runs"
            ;;
        esac
    done
}

# The single file over a split pair, and the other way round: what the last run did not write is refused.
one_left() { # NAME COMPILER AND FLAGS
    shift
    "$@" -fsyntax-only "$work/left/fewer/tiny.c" "$work/left/fewer/tiny_avx2.c" >"$log" 2>&1 || fail "a split pair made anew with $*"
    for file in fewer/tiny_avx512.c single/tiny_avx2.c; do
        "$@" -fsyntax-only "$work/left/$file" >"$log" 2>&1 && fail "$file of an earlier run compiles with $*"
        grep -q 'error.*copy all files of one run' "$log" || fail "$* does not say what is wrong with $file"
    done
}

# Several layers in one program: see tests/kernels/emitted_program.c.
one_program() { # - COMPILER AND FLAGS
    shift
    # shellcheck disable=SC2086
    "$@" $strict -D_GNU_SOURCE -I"$work/program" -o "$result.program" "$root/tests/kernels/emitted_program.c" \
        "$work"/program/*.c -lpthread >"$log" 2>&1 || fail "the program with $*"
    "$result.program" >"$log" 2>&1 || fail "the program built with $* ended with $?"
}

# What another target cannot have is empty, and no warning.
one_elsewhere() { # NAME COMPILER AND FLAGS
    local name=$1
    shift
    # shellcheck disable=SC2086
    compile "$work/split/$name" "$@" $strict
}

if [ "${1-}" = --one ]; then
    result=$work/results/$2
    log=$result.log
    kind=$3
    shift 3
    "one_$kind" "$@"
    echo "passed: $kind $*"
    exit 0
fi

# ---- attngen ----

mkdir "$work/results"
cd "$work" || exit 3
log=$work/log excerpt=(head -n 20)
sets=$("$root/tests/isas_here.sh")
tiny=$root/examples/tiny.layer
names="tiny every_mask"
files="tiny.c tiny_scalar.c tiny_avx2.c tiny_avx512.c tiny_neon.c tiny_internal.h tiny.h"

emit() { "$ATTNGEN" "$@"; }
lists() { test "$(ls -A "$1" | sort | tr '\n' ' ')" = "$(printf '%s\n' $2 | sort | tr '\n' ' ')"; }

cp "$root/tests/vectors/every_mask.layer" .
for spec in "$tiny" every_mask.layer; do
    name=$(basename "$spec" .layer)
    check "$name as one file" emit -o "single/$name" "$spec"
    check "$name and its shim" emit --shim -o "shim/$name" "$spec"
    check "the shim changes no text" cmp "shim/$name/$name.c" "single/$name/$name.c"
    check "$name split" emit --split -o "split/$name" --deps "$name.d" "$spec"
done
check "a file for each set" lists split/tiny "$files"
# shellcheck disable=SC2046,SC2086 # words
check "the rule names each of them" grep -qxF "$(printf 'split/tiny/%s ' $files | sed 's/ $//'): $tiny" tiny.d
check "the banner repeats the command" grep -qx ' \*     attngen --split tiny.layer' split/tiny/tiny.c
check "several at once" emit --split -o both "$tiny" every_mask.layer
check "the same bytes as alone" eval 'for name in tiny every_mask; do
    for file in split/$name/*; do cmp "$file" "both/${file##*/}" || exit; done; done'
check "all sets" emit --split --isa all -o every_set "$tiny"
check "as many files as sets" test "$(ls every_set/tiny_*.c | wc -l)" -eq 7
for spec in "$root"/examples/*.layer; do
    check "$(basename "$spec") split" emit --split --size small -o examples "$spec"
done
check "at most 120 columns" narrow examples/* every_set/* split/every_mask/*

touch -d 2001-01-01 both/*
echo >>both/tiny_avx2.c
check "again" emit --split -o both "$tiny" every_mask.layer
check "only what changed is written" test "$(find both -type f -newermt 2002-01-01)" = both/tiny_avx2.c
mkdir -p blocked/tiny_neon.c
ends 3 "$ATTNGEN" --split -o blocked "$tiny"
check "all or nothing" lists blocked tiny_neon.c
sed 's/^name.*//' "$tiny" >tiny_avx2.layer
for order in "$tiny tiny_avx2.layer" "tiny_avx2.layer $tiny"; do
    # shellcheck disable=SC2086
    ends 2 "$ATTNGEN" --split -o clash $order
    check "says what is shared" grep -q "with --split the file clash/tiny_avx2.c is also one of .*; give each layer a name" err
done
check "nothing is written" test ! -e clash
check "as single files they may have these names" emit -o clash "$tiny" tiny_avx2.layer

# ---- which jobs ----

emit --split --set h=2 -o torn/heads "$tiny" || exit 1
emit --split --isa all -o torn/sets "$tiny" || exit 1
for folder in fewer single; do emit --split -o left/$folder "$tiny" || exit 1; done
emit --split --isa avx2 -o left/fewer "$tiny" || exit 1
emit -o left/single "$tiny" || exit 1
for name in first second; do
    emit --split -o program --set name=$name "$root/tests/kernels/emitted_program.layer" || exit 1
done
emit --split -o program --set name=third --set h=2 "$root/tests/kernels/emitted_program.layer" || exit 1

for cc in $compilers; do
    for name in $names; do
        level=-O0 # both texts have the same functions: one layer, by $CC, shows that no level changes that
        [ "$name $cc" != "tiny ${compilers%% *}" ] || level=-O1
        job bits "$name" "$cc" $level
        job packing "$name" "$cc" -O0
    done
    job symbols tiny "$cc"
    job errors tiny "$cc"
    job torn heads "$cc"
    job torn sets "$cc"
    job left - "$cc"
    job program - "$cc" -O0
    case $cc in
    *clang*)
        for target in aarch64-linux-gnu i686-linux-gnu x86_64-w64-mingw32 arm64-apple-macos11; do
            job elsewhere every_mask "$cc" "--target=$target" -O0 -ffreestanding -nostdlibinc
        done
        ;;
    *) job elsewhere every_mask "$cc" -O0 -ffreestanding -U__x86_64__ ;;
    esac
done

export sets
cd "$root" || exit 3
run_jobs
tally
