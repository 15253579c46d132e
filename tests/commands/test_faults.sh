#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Both programs where the world is not kind: streams that are closed or full, signals that are ignored, kernels that
# crash or never end, compilers that talk without end, links.
#
#   tests/commands/test_faults.sh      ATTNGEN=build/attngen  ATTNRUN=build/attnrun  CC=gcc
set -u
cd "$(dirname "$0")/../.." || exit 3
. tests/checks.sh
unset ATTNRUN_LIMIT
export REAL_CC=${CC:-cc} CFLAGS=-O0 TMPDIR=$work/tmp XDG_CACHE_HOME=$work/cache WORK=$work
export CC=$REAL_CC
sanitized=false # attnrun itself: it takes any amount of addresses, has a sanitizer's library, catches SIGSEGV
nm "$attnrun" | grep -q __asan_init && sanitized=true
shown=(out err)
mkdir "$TMPDIR"
cd "$work" || exit 3
printf 'd_model = 8\nh = 1\nseq_len = 4\n' >tiny.layer
cp tiny.layer late.layer

script() { cat >"$1" && chmod +x "$1"; }
quick=(--isa scalar --seconds 0 --rounds 1)

# zeros NAME BATCH N: a file of tensors for tiny.layer, all of them zero
zeros() {
    local bytes=$(($2 * $3 * 32)) name head at
    head="{\"x\":{\"dtype\":\"F32\",\"shape\":[$2,$3,8],\"data_offsets\":[0,$bytes]}"
    at=$bytes
    for name in w_q w_k w_v w_o; do
        head+=",\"$name\":{\"dtype\":\"F32\",\"shape\":[8,8],\"data_offsets\":[$at,$((at + 256))]}"
        at=$((at + 256))
    done
    head+="}"
    { printf "\\x$(printf %x $((${#head} % 256)))\\x$(printf %x $((${#head} / 256)))\0\0\0\0\0\0%s" "$head"
      head -c $at /dev/zero; } >"$1"
}
zeros zero.safetensors 1 4

# ---- a standard output that is full, or closed ----

# full WHAT COMMAND…: with a full standard output, and a closed one
full() {
    "$@" >/dev/full 2>err
    check "$*: full → 3" test $? -eq 3
    says "standard output: error: cannot be written"
    "$@" >&- 2>err
    check "$*: closed → 3" test $? -eq 3
    says "standard output: error: cannot be written"
}
full "$attngen" --help
full "$attngen" --version
full "$attngen" --explain tiny.layer
full "$attnrun" --help
full "$attnrun" help check
full "$attnrun" --version
full "$attnrun" check tiny.layer --isa scalar
full "$attnrun" bench tiny.layer "${quick[@]}"
full "$attnrun" bench tiny.layer "${quick[@]}" --json
full "$attnrun" run tiny.layer --in zero.safetensors --isa scalar
full "$attnrun" pack tiny.layer --weights zero.safetensors --isa scalar
full "$attnrun" sweep tiny.layer --vary n=3,4 "${quick[@]}" --json points.jsonl
check "a closed output is no journal's" test "$(grep -c '^{.*}$' points.jsonl)" -eq "$(wc -l <points.jsonl)"
check "both points are there" test "$(wc -l <points.jsonl)" -eq 2

"$attngen" -o closed tiny.layer <&- >&- 2>&-
check "attngen without any stream → 0" test $? -eq 0
"$attngen" -o whole tiny.layer
check "the files are the same" diff -r closed whole

# ---- signals that a parent had ignored ----

script slow-cc <<'END'
#!/bin/sh
[ "$1" = --version ] && exec $REAL_CC --version
: >"$WORK/compiling"
sleep 1
exec $REAL_CC "$@"
END
for command in check "sweep --vary n=2"; do
    rm -rf compiling cache
    (trap '' HUP INT TERM; CC=$work/slow-cc exec "$attnrun" $command tiny.layer --isa scalar >out 2>err) &
    until [ -e compiling ]; do sleep 0.05; done
    kill -HUP $!; kill -INT $!; kill -TERM $!
    wait $!
    check "$command: signals that are ignored stay so" test $? -eq 0
done
if env --ignore-signal=CHLD true 2>/dev/null; then
    CC=false ends 3 env --ignore-signal=CHLD "$attnrun" check tiny.layer
    says "CC: error: is set to 'false', which compiles no kernel; set it to a C compiler"
    ends 0 env --ignore-signal=CHLD "$attnrun" check tiny.layer --isa scalar
else
    skip "SIGCHLD ignored: this env cannot" 3
fi

# ---- kernels that crash, never end, or end the process ----

# forward of tiny's scalar kernel does what $FAULT says; late's does not
script bad-cc <<'END'
#!/usr/bin/env bash
words=()
for word; do
    case $word in */tiny.c)
        sed "s/const int error = check_call(packed, args, scratch, \&of);/& if (tiny_isa(packed) == 1) $FAULT/" "$word" \
            >"${word%.c}-bad.c"
        word=${word%.c}-bad.c
    esac
    words+=("$word")
done
exec $REAL_CC "${words[@]}"
END

# faulty FAULT WHY
faulty() {
    export FAULT=$1
    ends 1 "$attnrun" check tiny.layer late.layer --isa scalar
    prints "FAILED  tiny scalar"; prints "$2 while it was checked"
    prints "attnrun check tiny.layer --isa scalar --seed 1 --batch 2 --n 4"
    prints "ok      late scalar"; prints "1 passed, 1 failed"
    ends 1 "$attnrun" bench tiny.layer late.layer "${quick[@]}"
    says "FAILED  tiny scalar: $2"; says "attnrun bench tiny.layer --isa scalar --seed 1"
    check "late is timed" grep -q '^late *scalar *layer' out
    ends 1 "$attnrun" run tiny.layer --in zero.safetensors --isa scalar --out bad.safetensors
    prints "FAILED  scalar: $2"; prints "attnrun run tiny.layer --isa scalar --in zero.safetensors"
    check "no result is written" test ! -e bad.safetensors
    check "nothing stays behind" test -z "$(ls -A "$TMPDIR")"
}
export CC=$work/bad-cc
crashed="the kernel was killed by signal 11 (Segmentation fault)"
$sanitized && crashed="the process of the kernel ended with code 1"
XDG_CACHE_HOME=$work/crashing faulty '*(volatile int *)0 = 0;' "$crashed"
XDG_CACHE_HOME=$work/ending faulty '{ extern void _exit(int); _exit(0); }' "the process of the kernel ended with code 0"
XDG_CACHE_HOME=$work/looping ATTNRUN_LIMIT=3 faulty 'for (;;) ;' "the kernel did not end within its time limit (ATTNRUN_LIMIT)"
ends 1 env XDG_CACHE_HOME="$work/looping" ATTNRUN_LIMIT=3 "$attnrun" sweep tiny.layer --vary n=4 "${quick[@]}" --json -
prints "did not end within its time limit"; prints '"parameters":256,'; prints '"multiply_adds":1280,'
export CC=$REAL_CC
script stuck-cc <<'END'
#!/bin/sh
for last; do :; done
case $last in *.c) echo '__attribute__((constructor)) static void stay(void) { for (volatile int i = 0; ; ) i = 1; }' >>"$last" ;; esac
exec $REAL_CC "$@"
END
ATTNRUN_LIMIT=1 CC=$work/stuck-cc ends 3 timeout 30 "$attnrun" check tiny.layer --isa scalar
says "cannot be loaded: the kernel did not end within its time limit (ATTNRUN_LIMIT)"
ATTNRUN_LIMIT=soon ends 2 "$attnrun" check tiny.layer;   says '"soon" is not a time'

# ---- compilers ----

script loud-cc <<'END'
#!/bin/sh
[ "$1" = --version ] && exec $REAL_CC --version
echo "the first words"
head -c 200000000 /dev/zero | tr '\0' x
echo "the last words" >&2
exit 1
END
limit=100000
$sanitized && limit=unlimited
CC=$work/loud-cc ends 3 bash -c 'ulimit -v $0; exec "$@"' $limit "$attnrun" check late.layer
says "the first words"; says "the last words"; says "bytes are left out"
check "little is kept of it" test "$(wc -c <err)" -lt 1000000

script parent-cc <<'END'
#!/bin/sh
[ "$1" = --version ] && exec $REAL_CC --version
sleep 300 &
echo $! >"$WORK/child"
$REAL_CC "$@"
END
rm -rf cache
CC=$work/parent-cc ends 0 timeout 200 "$attnrun" check late.layer --isa scalar
# gone, or a zombie where nobody waits for orphans
ended() {
    local tries
    for ((tries = 0; tries < 100; tries++)); do
        grep -qs '^State:.[^ZX]' "/proc/$1/status" || return 0
        sleep 0.1
    done
    return 1
}
check "a child that a compiler left behind is ended" ended "$(cat child)"

if ! $sanitized && echo 'int f(void) { return 0; }' | $REAL_CC -fsanitize=address -shared -fPIC -x c -o probe.so - 2>/dev/null; then
    CFLAGS='-O0 -fsanitize=address' ends 3 "$attnrun" check late.layer --isa scalar
    says "attnrun selftest"; says "LD_PRELOAD="
else
    skip "a kernel with AddressSanitizer: this compiler has none, or attnrun has it" 3
fi

# ---- outputs that are links ----

mkdir far links
ln -s ../far/tiny.c links/tiny.c; ln -s "$work/far/h" links/tiny.h; ln -s h far/h.too
ends 0 "$attngen" -o links tiny.layer
check "the link stays" test -L links/tiny.c -a -L links/tiny.h
check "where it leads is written" diff whole/tiny.c far/tiny.c
check "where an absolute one leads too" diff whole/tiny.h far/h
echo old >far/tiny.c
ends 0 "$attngen" -o links tiny.layer
check "an old file is replaced" diff whole/tiny.c far/tiny.c
ln -sf circle links/circle
ends 3 "$attngen" -o whole --deps links/circle tiny.layer;  says "Too many levels of symbolic links"
ln -s ../far/result links/result
for again in once twice; do
    ends 0 "$attnrun" run tiny.layer --in zero.safetensors --isa scalar --out links/result
    check "run: the link stays, $again" test -L links/result -a -s far/result
done
ends 3 "$attnrun" run tiny.layer --in zero.safetensors --isa scalar --out links/circle
ln -s ../nowhere/table links/table
ends 3 "$attnrun" sweep tiny.layer --vary n=2 "${quick[@]}" --csv links/table; says "links/table: error: cannot be written"
check "nothing else is left" test "$(ls far | tr '\n' ' ')" = "h h.too result tiny.c "

# ---- what can be asked, and not here ----

case $(uname -m) in aarch64) foreign=avx2 ;; *) foreign=neon ;; esac
ends 3 "$attnrun" check tiny.layer --isa $foreign;     says "none of the requested instruction sets"
prints "0 passed, 0 failed, 1 skipped"
ends 3 "$attnrun" bench tiny.layer --isa $foreign;     says "none of the requested instruction sets"
for command in check bench; do # a set that the layer's pair cannot have, whatever the machine has
    ends 3 "$attnrun" $command tiny.layer --set precision=bf16 --isa sse4
    check "$command names the reason" grep -qF "the pair has no such set" out err # check: in its line on out
    says "none of the requested instruction sets"
done
ends 0 "$attnrun" check tiny.layer --isa $foreign,scalar
ends 0 "$attnrun" bench tiny.layer "${quick[@]}" --isa $foreign,scalar
ends 2 "$attnrun" chek tiny.layer;                     says "did you mean 'check'?"
ends 2 "$attnrun" check --bacth 2 tiny.layer;          says "did you mean '--batch'?"
ends 2 "$attnrun" bench --rounds 0 tiny.layer;         says "--rounds cannot be '0'; write a whole number from 1 to 1000000"

# ---- sequences without positions ----

zeros empty.safetensors $((1 << 33)) 0
ends 0 timeout 60 "$attnrun" run tiny.layer --in empty.safetensors --isa scalar
ends 0 timeout 60 "$attnrun" run tiny.layer --in empty.safetensors --reference
ends 0 bash -c 'ulimit -t 5; exec "$@"' - "$attnrun" check tiny.layer --isa scalar --batch 2000000000 --n 0 # CPU s

tally
