#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# attnrun sweep and merge from outside: the table and the files, points without numbers, interruptions, shards. The page:
# test_page.sh.
#
# Layers are tiny, scalar and compiled with -O0; what they measure is of no interest here.
set -u
cd "$(dirname "$0")/../.." || exit 3
. tests/commands/sweeps.sh
shown=(err out)

printf 'd_model = 8\nh = 2\nseq_len = 20\n' >small.layer

prints() { check "prints '$1'" grep -Eq -- "$1" out; }
lines() { check "$1 has $2 lines" test "$(wc -l <"$1")" -eq "$2"; }
# value LINE KEY: of a line of JSON
value() { sed "s/.*\"$2\":\"\{0,1\}\([^,}\"]*\).*/\1/" <<<"$1"; }
# numbers FILE: the points of JSON lines, in the order of the file
points() { sed 's/.*"point":\([0-9]*\).*/\1/' "$1"; }

# ---- what cannot be asked ----

run 2 sweep small.layer;                                      says "needs --vary"
run 2 sweep --vary h=1,2;                                     says "needs one spec"
run 2 sweep small.layer small.layer --vary h=1;               says "needs one spec"
run 2 sweep small.layer --vary hh=1;                          says "no key that can be varied"
run 2 sweep small.layer --vary seq_ln=1;                      says "did you mean 'seq_len'?"
run 2 sweep small.layer --vary h=1 --rounds 0;                says "write a whole number from 1 to 1000000"
run 2 sweep small.layer --vary h=1:2;                         says "first:last:step"
run 2 sweep small.layer --vary h=1 --vary h=2;                says "varied twice"
run 2 sweep small.layer --vary h=1 --set h=2;                 says "--set h=2 fixes it"
run 2 sweep small.layer --vary n=1,2 --n 4;                   says "--n fixes it"
run 2 sweep small.layer --vary isa=avx9;                      says "unknown instruction set 'avx9'"
run 2 sweep small.layer --vary h=1 --isa avx9;                says "avx9"
run 2 sweep small.layer --vary h=1 --shard 3/2;               says "--shard cannot be"
run 2 sweep small.layer --vary h=1 --resume;                  says "--resume needs --json FILE"
run 2 sweep small.layer --vary h=1 --csv - --json -;          says "only one of"
run 2 sweep small.layer --vary h=1 --csv a --html a;          says "name the same file"
run 3 sweep small.layer --vary h=1 --csv none/a.csv;          says "none/a.csv: error: cannot be written"
run 3 sweep small.layer --vary h=1 --csv .;                   says ".: error: cannot be written"
run 3 sweep none.layer --vary h=1 --isa scalar;               says "none.layer"
# a file of --json that holds anything else is someone's: no line, a line that is no result, the same with --resume
for text in 'a letter' '{"a":1}\n' '{"sweep":"x"}\n{"a":1}\n'; do
    for resume in "" --resume; do
        printf "$text" >letter
        cp letter kept
        run 2 sweep small.layer --vary h=1 "${quick[@]}" --json letter $resume
        check "'$text' is left as it was" cmp letter kept
    done
done
run 3 sweep small.layer --vary h=1 --attngen /none;           says "/none"
run 3 sweep small.layer --vary h=1 --attngen /bin/true;       says "not attngen"
CC=/none/cc run 3 sweep small.layer --vary h=1;               says "/none/cc"
run 2 sweep small.layer --vary h=3,5 "${quick[@]}" --json none.jsonl
says "no point is legal"
lines none.jsonl 2
# kinds of attention are varied like any key; what has no meaning beside a value makes its point illegal
run 2 sweep small.layer --vary rope=none,half --set rope_dims=3 "${quick[@]}"
prints '^illegal: rope=none: rope_dims is given, but nothing is rotated; '
prints '^illegal: rope=half: rope_dims = 3 is odd'

# ---- what stands around attention ----

run 0 sweep small.layer --set d_ff=5 --vary block=none,pre --vary ffn=relu,swiglu "${quick[@]}" --json f.jsonl
prints '^illegal: block=none ffn=relu: .*there is no block around attention'
check "parameters of the feed-forward" test "$(value "$(grep '"point":3,' f.jsonl)" parameters_ffn)" = 80
check "and with a gate" test "$(value "$(grep '"point":4,' f.jsonl)" parameters_ffn)" = 120

# ---- types: what they cost stands beside what they gain ----

run 0 sweep small.layer --vary precision=f32,i8 --vary n=20 "${quick[@]}" --json types.jsonl
prints '^point +precision .* against f32 +largest '
whole=$(value "$(grep '"precision":"i8"' types.jsonl)" against_f32)
plain=$(value "$(grep '"precision":"f32"' types.jsonl)" against_f32)
check "rounding to f32 costs next to nothing ($plain), to i8 some" awk "BEGIN { exit !($plain < 1e-6 && $whole > 1e-3 && $whole < 0.1) }"
run 0 sweep small.layer --vary n=20 "${quick[@]}"
check "a layer without types has no such column" eval '! grep -q against out'
run 0 check small.layer --set precision=i8 --against f32 --isa scalar --batch 1
prints " against f32: rms $(awk "BEGIN { printf \"%.2g\", $whole }"), largest .* of y's rms, .* of the bound"
run 2 check small.layer --against f16;                        says "--against cannot be 'f16'; write f32"

# ---- a sweep with legal and illegal points: table, CSV, JSON lines ----

run 0 sweep small.layer --vary h=1,2,3 --vary width=narrow,wide "${quick[@]}" --json a.jsonl --csv a.csv
prints '^point +h +width +status +params +q +k +v +o +mult-adds +packed +scratch +code +folded +µs +min +max .*compile$'
prints '^ +1 +1 +narrow +ok +256 +64 +64 +64 +64 '
prints '^ +4 +2 +wide +ok +512 +128 '
prints '^ +6 +3 +wide +ok +768 +192 '
prints '^ +5 +3 +narrow +illegal'
prints '^illegal: h=3 width=narrow: h = 3 does not divide d_model = 8'
prints '^cpu: .'
prints '^compiler: .'
lines a.jsonl 6
lines a.csv 7
check "CSV has its head" grep -q '^point,h,width,status,isa,n,m,batch,parameters,parameters_q,' a.csv
check "CSV quotes" grep -q ',"h = 3 does not divide d_model = 8, but' a.csv
check "the legal points are good" test "$(grep -c '"status":"ok"' a.jsonl)" -eq 5
line=$(grep '"point":4,' a.jsonl)
for wanted in h=2 width=wide parameters=512 multiply_adds=23040 isa=scalar n=20 samples=3 cache=warm status=ok \
    folded=both; do
    check "$wanted" test "$(value "$line" "${wanted%=*}")" = "${wanted#*=}"
done
for key in packed_bytes scratch_bytes code_bytes compile_s us us_min us_q1 us_q3 us_max gflops peak_gflops share \
    error_of_gate error_of_bound us_over_min memory_gbs; do
    check "$key is above 0" awk -v x="$(value "$line" $key)" 'BEGIN { exit !(x > 0) }'
done
for order in "us_min us_low" "us_low us_q1" "us_q1 us" "us us_q3" "us_q3 us_high" "us_high us_max" \
    "error_of_bound error_of_gate"; do
    read -r less more <<<"$order"
    check "$less is at most $more" awk -v a="$(value "$line" "$less")" -v b="$(value "$line" "$more")" \
        'BEGIN { exit !(a <= b && b < 1e9) }'
done
check "folded=none" test "$(value "$(grep '"point":3,' a.jsonl)" folded)" = none
check "switches are counted" grep -Eq '"switches":[0-9]+,' <<<"$line"
check "disturbed or not" grep -Eq '"disturbed":[01],' <<<"$line"
if grep -q '"cpu_share"' <<<"$line"; then
    check "a share of the CPU" awk -v x="$(value "$line" cpu_share)" 'BEGIN { exit !(x > 0 && x <= 1) }'
else
    skip "the share of the CPU: this system counts it in ticks"
fi
check "CSV knows them" grep -q ',us_min,.*,rank,.*,cpu_share,switches,disturbed,' a.csv
check "lines have no rank, which depends on other results" test "$(grep -c '"rank"' a.jsonl)" -eq 0
for column in $(head -1 a.csv | tr , '\n' | grep -vxE 'h|width'); do
    check "docs/sweep.md describes the column $column" grep -Eq "^\|.*\`$column\`.*\|.*[a-z]" "$root/docs/sweep.md"
done
check "error within the gate" awk -v x="$(value "$line" error_of_gate)" 'BEGIN { exit !(x <= 1) }'
for key in cpu compiler flags kernel version when sweep id settings; do
    check "$key is told" grep -q "\"$key\":\"[^\"]" <<<"$line"
done
if command -v python3 >/dev/null; then
    check "each line is JSON" python3 -c 'import json
for line in open("a.jsonl"): json.loads(line)'
    check "the CSV is a table" python3 -c 'import csv
rows = list(csv.reader(open("a.csv"))); assert len({len(r) for r in rows}) == 1 and len(rows) == 7'
else
    skip "JSON and CSV by another reader: no python3"
fi

# CSV to the standard output is all there
run 0 sweep small.layer --vary h=1,2 "${quick[@]}" --csv -
lines out 3
run 0 sweep small.layer --vary h=1,2 "${quick[@]}" --json -
check "JSON alone" test "$(grep -c '^{.*}$' out)" -eq "$(wc -l <out)"

# ---- keys of the call and of the plan, instruction sets ----

run 0 sweep small.layer --vary n=4,20,21 --vary batch=1,2 "${quick[@]}"
prints 'illegal: n=21 batch=1: n = 21 is past seq_len = 20'
prints '^ +3 +20 +1 +ok .* 11\.5k '
prints '^ +4 +20 +2 +ok .* 23\.0k '
run 0 sweep small.layer --vary m=4 --vary n=1 "${quick[@]}" --set attention=cross
run 2 sweep small.layer --vary m=4 --vary n=1 "${quick[@]}"
prints 'illegal: m=4 n=1: m is for attention = cross'
run 0 sweep small.layer --vary plan.unroll=1,no "${quick[@]}"
prints '^illegal: plan.unroll=no: '
run 0 sweep small.layer --vary isa=scalar,avx2,avx512 --seconds 0.001 --rounds 3
check "every set is done or lacking" test "$(grep -Ec '^ +[0-9] +(scalar|avx2|avx512) +(ok|skipped)' out)" -eq 3
case $(uname -m) in aarch64) foreign=avx2 ;; *) foreign=neon ;; esac
run 3 sweep --vary h=1 --isa $foreign small.layer
says "none of the requested instruction sets"
check "a set of another architecture is lacking, not failed" grep -q "^skipped: h=1: $foreign: this machine lacks it$" out
# of every set and type the reason that check gives, and no compilation for what a pair or this machine cannot have
cat >cc <<'CC'
#!/bin/sh
for last; do :; done
case $last in *.c) echo "$last" >>"$COMPILED" ;; esac
exec cc "$@"
CC
chmod +x cc
export COMPILED=$work/compiled
sets=sse4,avx2,avxvnni,avx512,amx,neon,wasm_simd128,rvv
for type in precision=bf16 precision=i8 precision=i16 weight_type=i4 weight_type=bf16 cache_type=f16; do
    with=$type
    [ $type != cache_type=f16 ] || with="$type --set cache=rows --set cache_len=20 --set mask=causal"
    rm -f compiled
    # shellcheck disable=SC2086 # several words
    CC=$work/cc "$attnrun" sweep small.layer --vary isa=$sets --set $with --seconds 0 --rounds 3 --cache "$work/sets" >out 2>err </dev/null
    # shellcheck disable=SC2086
    "$attnrun" check small.layer --set $with --isa $sets --cache "$work/sets" >checked 2>err </dev/null
    sed -n 's/^skipped small \([a-z0-9_]*\)  /\1: /p' checked | sort >wanted
    sed -n 's/^skipped: .*isa=[a-z0-9_]*: //p' out | sort >found
    check "$type: the reasons are those of check" cmp wanted found
    check "$type: some" test -s found
    check "$type: what is skipped is not compiled" test "$(sort -u compiled 2>/dev/null | wc -l)" -le "$(grep -c ' ok ' out)"
done
run 0 sweep small.layer --vary h=2 --isa scalar,avx2 --seconds 0.001 --rounds 3
prints '^point +h +isa '

# ---- points that fail are rows, and exit 1 ----

cat >cc <<'CC'
#!/bin/sh
# one head: does not compile; four: wrong; eight: crashes when it is loaded
for last; do :; done
case $last in *.c)
    if grep -q '_H 1 ' "${last%.c}.h"; then
        echo 'no, "never"' >&2
        exit 1
    elif grep -q '_H 4 ' "${last%.c}.h"; then
        sed -i 's/#define QUERY_SCALE [0-9.]*f/#define QUERY_SCALE 3.0f/' "$last"
    elif grep -q '_H 8 ' "${last%.c}.h"; then
        echo '__attribute__((constructor)) static void die(void) { __builtin_trap(); }' >>"$last"
    fi
esac
exec cc "$@"
CC
chmod +x cc
CC=$work/cc run 1 sweep small.layer --vary h=1,2,4,8 "${quick[@]}" --json f.jsonl --csv f.csv --cache "$work/cache"
prints '^ +1 +1 +failed'
prints '^ +2 +2 +ok'
prints '^ +3 +4 +failed'
prints '^ +4 +8 +failed +256 +64 +64 +64 +64 +11\.5k '
prints 'failed: h=1: failed \(exit code 1\) while it compiled'
prints 'failed: h=4: y\[[0-9]*\].* the reference has '
prints 'failed: h=8: .*the kernel was killed by signal '
lines f.jsonl 4
check "the compiler's words are kept" grep -q 'no, \\"never\\"' f.jsonl
CC=$work/cc run 1 sweep small.layer --vary h=1,2,4,8 "${quick[@]}" --json f.jsonl --cache "$work/cache" --resume
lines f.jsonl 4

# ---- what is not the layer's own is no result: said, not written, tried again; exit 3 ----

# with the file STRANGE the compiler is kept from two heads: the word in it says by what
cat >cc <<'CC'
#!/bin/sh
for last; do :; done
case $last in *.c) ;; *) exec cc "$@" ;; esac
word=$(cat "$STRANGE")
grep -q '_H 2 ' "${last%.c}.h" || case $word in all* | when*) ;; *) word= ;; esac
case $word in
once) echo >"$STRANGE"; echo 'not today' >&2; exit 1 ;;
always) echo 'not today' >&2; exit 1 ;;
killed) kill -9 $$ ;;
space | all-space) echo 'as: cannot write to a.o: No space left on device' >&2; exit 1 ;;
file) ulimit -f 1 ;;
all-broken) echo 'no licence' >&2; exit 1 ;;
when-*) # the kernel ends when it is loaded once more than tried, after the last point's, so when they are timed
    [ "$word" = when-crashed ] && how=SIGSEGV || how=SIGKILL
    cat >>"$last" <<END
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
__attribute__((constructor)) static void arm(void)
{
#if SMALL_H == 4
    fclose(fopen("$STRANGE.armed", "w"));
#elif SMALL_H == 2
    if (access("$STRANGE.armed", F_OK) == 0 && access("$STRANGE.tried", F_OK) == 0)
        raise($how);
    if (access("$STRANGE.armed", F_OK) == 0)
        fclose(fopen("$STRANGE.tried", "w"));
#endif
}
END
esac
exec cc "$@"
CC
export STRANGE=$work/strange
strange() { # strange STATUS WORD: a sweep with that word
    rm -f l.jsonl strange.armed strange.tried
    rm -rf "$work/lost"
    echo "$2" >strange
    CC=$work/cc run "$1" sweep small.layer --vary h=1,2,4 "${quick[@]}" --json l.jsonl --cache "$work/lost"
}
strange 0 once
lines l.jsonl 3
strange 1 always
lines l.jsonl 3
prints 'failed: h=2: failed \(exit code 1\) while it compiled'
for word in killed space file; do
    strange 3 $word
    lines l.jsonl 2
    check "$word: none failed" test "$(grep -c '"status":"ok"' l.jsonl)" -eq 2
    says "no result of h=2: "
    says "1 point could not be measured, for reasons of the machine"
    says "the same command with --resume tries again"
    echo >strange
    CC=$work/cc run 0 sweep small.layer --vary h=1,2,4 "${quick[@]}" --json l.jsonl --cache "$work/lost" --resume
    check "$word: --resume tries again" test "$(grep -c '"status":"ok"' l.jsonl)" -eq 3
done
for word in all-space all-broken; do # every point would be lost: it stops
    strange 3 $word
    check "$word: nothing is a result" test ! -s l.jsonl
    says "3 points could not be measured, for reasons of the machine"
    says "the sweep stopped, as they came one after the other"
done
# of a group that is timed, only the point that is at fault is lost or failed
strange 1 when-crashed
prints '^ +1 +1 +ok'
prints '^ +2 +2 +failed'
prints '^ +3 +4 +ok'
prints '^failed: h=2: .*the kernel was killed by signal '
strange 3 when-killed
lines l.jsonl 2
check "when-killed: the others are good" test "$(grep -c '"status":"ok"' l.jsonl)" -eq 2
check "by whom" grep -Eq 'no result of h=2: .*the kernel was killed by signal 9' err

# no more processes, once the first two points have begun
cat >nofork.c <<'C'
#include <errno.h>
#include <sys/types.h>
pid_t fork(void)
{
    errno = EAGAIN;
    return -1;
}
C
if cc -shared -fPIC -o nofork.so nofork.c 2>/dev/null && LD_PRELOAD=$work/nofork.so "$attnrun" --version >/dev/null 2>&1
then
    rm -f l.jsonl
    ends 3 env LD_PRELOAD="$work/nofork.so" "$attnrun" sweep small.layer --vary h=1,2,3 "${quick[@]}" --json l.jsonl
    says "no process can be started"
    check "no failed point" test "$(grep -c '"status":"failed"' l.jsonl)" -eq 0
    run 0 sweep small.layer --vary h=1,2,3 "${quick[@]}" --json l.jsonl --resume
    check "--resume tries again" test "$(grep -c '"status":"ok"' l.jsonl)" -eq 2
else
    skip "no more processes: nothing can be preloaded here" 4
fi

# ---- times that are less sure, and points that cannot be told apart ----

ranked() { # US US_MIN US_Q3 GB/S…: one result each
    local i=0
    for of; do
        read -r us least q3 memory <<<"$of"
        echo "{\"sweep\":\"s\",\"cpu\":\"c\",\"vary\":\"h\",\"h\":$((i += 1)),\"point\":$i,\"points\":$#,\"status\":\"ok\"," \
            "\"us\":$us,\"us_min\":$least,\"us_q3\":$q3,\"memory_gbs\":$memory}"
    done
}
# ranges 90 to 110, 111 to 140, 105 to 130; and 130 to 160 while memory took twice as long: 65 to 160
ranked "100 90 110 50" "120 111 140 50" "110 105 130 50" "140 130 160 25" "103 102 104 50" >ranks.jsonl
run 0 merge ranks.jsonl --csv -
check "ranks: those that are surely faster" test "$(cut -d, -f"$(head -1 out | tr , '\n' | grep -nx rank | cut -d: -f1)" out |
    tail -n +2 | tr '\n' ' ')" = "1 3 2 1 1 "
run 0 merge ranks.jsonl
prints '^ +1 +1 +ok +100\.00~ '
prints '^ +5 +5 +ok +103\.00  '
prints '^~: the median is 5 to 30 % above the minimum'

# ---- nothing ahead of time where nothing can be kept ----

printf '#!/bin/sh\necho >>"%s/made"\nexec "%s" "$@"\n' "$work" "$ATTNGEN" >generator
chmod +x generator
mkdir -m 777 open open/attngen # a folder to which others may write is not ours
chmod 777 open/attngen
XDG_CACHE_HOME=$work/open run 0 sweep small.layer --vary h=1,2 "${quick[@]}" --attngen "$work/generator"
check "the version, and each pair as it is checked and as it is timed" test "$(wc -l <made)" -eq 5

# ---- processes that compile end with their sweep, though it ignores SIGTERM ----

cat >cc <<'CC'
#!/bin/sh
for last; do :; done
case $last in *.c) echo "$PPID $$" >"$0.worker" && exec sleep 30 ;; esac
exec cc "$@"
CC
chmod +x cc
(trap '' TERM && CC=$work/cc exec "$attnrun" sweep small.layer --vary h=2 "${quick[@]}" --cache "$work/ends" >out 2>err </dev/null) &
for ((turns = 0; turns < 600; turns++)); do [ -s cc.worker ] && break; sleep 0.05; done
kill -9 $! && wait $! 2>/dev/null
read -r worker sleeper <cc.worker
ended() { ! grep -qs '^State:.[^ZX]' "/proc/$worker/status"; }
for ((turns = 0; turns < 100; turns++)); do ended && break; sleep 0.05; done
check "its compiling process has ended" ended
kill "$sleeper"

# ---- folders of killed runs ----

mkdir temporary
# a compiler that outlives its attnrun, and writes while its folder is being removed
cat >cc <<'CC'
#!/bin/sh
for last; do :; done
case $last in *.c) kill -9 $PPID ;; *) exec cc "$@" ;; esac
while [ -d "$TMPDIR" ] && [ $((i += 1)) -lt 100000 ]; do : >"$TMPDIR/$i"; done
CC
TMPDIR=$work/temporary CC=$work/cc "$attnrun" sweep small.layer --vary h=2 "${quick[@]}" --cache "$work/killed" >out 2>err </dev/null
check "a process that is killed leaves its folder" test -n "$(ls temporary)"
left=$(cd temporary && echo attnrun-*-*-*) && left=${left%% *}
place=${left#attnrun-*-} place=${place%-*}
mkdir "temporary/attnrun-$$-$place-living" "temporary/attnrun-999999999-00000000-remote" temporary/attnrun-other
touch "temporary/attnrun-999999999-$place-file"
TMPDIR=$work/temporary run 0 check small.layer --isa scalar
check "the next run removes it" eval '! compgen -G "temporary/*${left##*-}"'
for name in "$$-$place-living" 999999999-00000000-remote "999999999-$place-file" other; do
    check "and not $name" test -e "temporary/attnrun-$name"
done

# ---- interrupted and resumed: nothing is lost, nothing done twice ----

many=(sweep small.layer --vary h=1,2 --vary n=1:20:1 "${quick[@]}")
# interrupt SIGNAL FILE LINES: begins the sweep and stops it once so many lines are there
interrupt() {
    set -m # a child of a script that has no jobs ignores SIGINT, and so would the sweep
    "$attnrun" "${many[@]}" --json "$2" --html "$2.html" --csv "$2.csv" >out 2>err </dev/null &
    local child=$! turns=0
    set +m
    while [ "$(cat "$2" 2>/dev/null | wc -l)" -lt "$3" ] && [ $((turns += 1)) -lt 600 ] && kill -0 $child 2>/dev/null; do
        sleep 0.05
    done
    kill -"$1" $child
    wait $child 2>/dev/null
    ended=$?
}

# before its first point, while the compiler is asked: what is there is left as it was
cat >cc <<'CC'
#!/bin/sh
: >"$STRANGE"
sleep 60
CC
rm -f strange k.jsonl
echo '{"half": "a li' >k.jsonl && cp k.jsonl before.jsonl
CC=$work/cc "$attnrun" "${many[@]}" --json k.jsonl >out 2>err </dev/null &
until [ -e strange ] || ! kill -0 $! 2>/dev/null; do sleep 0.05; done
kill -TERM $!
wait $! 2>/dev/null
check "it dies of the signal" test $? -gt 128
says "attnrun sweep: interrupted before its first point; the files are as they were"
check "and of its own words alone" test "$(wc -l <err)" -eq 1
check "they are" cmp -s k.jsonl before.jsonl

# a point has its line as soon as it is checked, long before the others of its group are
rm -f k.jsonl
interrupt KILL k.jsonl 1
check "lines of checked points: $(wc -l <k.jsonl)" test "$(wc -l <k.jsonl)" -lt 16 -a "$(grep -c '"status":"checked"' k.jsonl)" -ge 1
check "they tell what is known" grep -q '"parameters":.*"error_of_bound":' k.jsonl
run 2 "${many[@]}" --json k.jsonl
says "has not ended; go on with --resume"
run 2 merge k.jsonl
says "not timed yet"
for signal in INT TERM KILL; do
    rm -f k.jsonl*
    interrupt $signal k.jsonl 17
    check "$signal ends it" test $ended -gt 2
    if [ $signal != KILL ]; then
        says "interrupted; "
        check "$signal: the page has what is there" grep -q "points, $(grep -c '"status":"ok"' k.jsonl) measured" k.jsonl.html
        check "$signal: and CSV" test "$(wc -l <k.jsonl.csv)" -eq $((1 + $(grep -c '"status":"ok"' k.jsonl)))
    fi
    had=$(wc -l <k.jsonl) done=$(grep -vc '"status":"checked"' k.jsonl)
    check "checked points come last" test "$(head -n "$done" k.jsonl | grep -c '"status":"checked"')" -eq 0
    check "some lines, not all: $had" test "$had" -ge 16 -a "$had" -lt 40
    check "whole lines" test "$(grep -c '^{.*}$' k.jsonl)" -eq "$had"
    cp k.jsonl before.jsonl
    if [ $signal = INT ]; then
        run 2 "${many[@]}" --json k.jsonl
        says "has not ended; go on with --resume"
        check "left alone" cmp -s k.jsonl before.jsonl
        printf '{"sweep":"half a li' >>k.jsonl
    fi
    run 0 "${many[@]}" --json k.jsonl --resume
    lines k.jsonl 40
    check "$signal: whole lines again" test "$(grep -c '^{"sweep":"[0-9a-f]*",.*}$' k.jsonl)" -eq 40
    check "$signal: each point once" test "$(points k.jsonl | sort -n | uniq | wc -l)" -eq 40
    check "$signal: what was done stands" cmp -s <(head -n "$done" k.jsonl) <(head -n "$done" before.jsonl)
done
cp k.jsonl before.jsonl
run 0 "${many[@]}" --json k.jsonl --resume
check "nothing is left to do" cmp -s k.jsonl before.jsonl
check "the table has all" test "$(grep -Ec '^ +[0-9]+ +[12] +[0-9]+ +ok' out)" -eq 40
run 2 sweep small.layer --vary h=1,2 "${quick[@]}" --json k.jsonl --resume
says "holds another sweep"
CFLAGS='-O0 -g0' run 2 "${many[@]}" --json k.jsonl --resume
says "another processor or compiler"
cat k.jsonl <(head -1 k.jsonl) >twice.jsonl
run 2 "${many[@]}" --json twice.jsonl --resume
says "twice"
echo text >text.jsonl
run 2 "${many[@]}" --json text.jsonl
says "text.jsonl:1: error: "
check "a foreign file is left alone" grep -qx text text.jsonl
exec 9>>k.jsonl
if command -v flock >/dev/null && flock -n 9; then
    run 3 "${many[@]}" --json k.jsonl --resume
    says "another attnrun writes to it"
else
    skip "one writer at a time: no flock"
fi
exec 9>&-

# ---- full disk ----

if [ -w /dev/full ]; then
    run 3 sweep small.layer --vary h=1,2 "${quick[@]}" --json /dev/full; says "/dev/full"
    run 3 sweep small.layer --vary h=1,2 "${quick[@]}" --csv /dev/full;  says "/dev/full"
    "$attnrun" sweep small.layer --vary h=1,2 "${quick[@]}" >/dev/full 2>err
    check "a full standard output" test $? -eq 3
else
    skip "full disk: no /dev/full"
fi
run 3 sweep small.layer --vary h=1,2 "${quick[@]}" --csv none/a.csv; says "none/a.csv"
check "no half-written file" test -z "$(ls -A | grep '\.csv\.')"

# ---- shards and merge ----

for i in 1 2; do # one of them has the illegal point alone
    run 0 sweep small.layer --vary h=1,3 "${quick[@]}" --shard $i/2
done
whole=(sweep small.layer --vary h=1,2,3 --vary width=narrow,wide "${quick[@]}")
for i in 1 2 3; do
    run 0 "${whole[@]}" --shard $i/3 --json shard$i.jsonl
    lines shard$i.jsonl 2
done
run 0 merge shard3.jsonl shard1.jsonl shard2.jsonl --json merged.jsonl --csv merged.csv
lines merged.jsonl 6
check "in order" test "$(points merged.jsonl | tr '\n' ' ')" = "1 2 3 4 5 6 "
# all that is not measured is that of the whole sweep
lasting() { cut -d, -f1-16 "$1" | sed 's/,,*$//'; }
check "the shards are the whole" cmp -s <(lasting a.csv) <(lasting merged.csv)
run 0 merge shard1.jsonl shard2.jsonl shard3.jsonl shard1.jsonl
run 1 merge shard1.jsonl shard3.jsonl
says "2 of 6 points are missing: $(points shard2.jsonl | sort -n | sed -n 1p)"
says "nothing is there of shard 2/3"
sed 's/"us":[0-9.]*/"us":1.5/' shard1.jsonl >other.jsonl
run 2 merge shard1.jsonl other.jsonl;                         says "another result for point"
run 2 merge shard1.jsonl k.jsonl;                             says "another sweep"
sed 's/"version":"[^"]*"/"version":"9.9.9"/' shard2.jsonl >newer.jsonl
run 2 merge shard1.jsonl newer.jsonl;                         says "is of attngen 9.9.9"
sed 's/"status":"[a-z]*"/"status":"checked"/' shard1.jsonl >waits.jsonl
run 2 merge waits.jsonl k.jsonl;                              says "another sweep"
run 0 merge waits.jsonl shard1.jsonl shard2.jsonl shard3.jsonl
run 2 merge shard1.jsonl text.jsonl;                          says "text.jsonl:1"
echo '{"a":1}' >odd.jsonl
run 2 merge odd.jsonl;                                        says "not a result of attnrun sweep"
echo '{"sweep":"s","point":1,"points":2000000000}' >odd.jsonl
run 2 merge odd.jsonl;                                        says "not a result of attnrun sweep"
for shard in 1/18446744073709551615 1/1000000 0/2 3/2 x; do
    echo '{"sweep":"s","point":1,"points":2,"shard":"'$shard'"}' >odd.jsonl
    run 2 merge odd.jsonl;                                    says "not a result of attnrun sweep"
done
echo '{"sweep":"s","point":1,"points":100000,"shard":"1/100000"}' >odd.jsonl
run 1 merge odd.jsonl;                                        says "points are missing: 2 to 100000"
says "nothing is there of shard"
check "not a list without end" test "$(wc -c <err)" -lt 1000
sed 's/"disturbed":[01]/"disturbed":1/' shard1.jsonl >torn.jsonl
sed 's/"disturbed":[01]/"disturbed":0/' shard2.jsonl shard3.jsonl >calm.jsonl
run 0 merge torn.jsonl calm.jsonl
prints '[0-9]\* +[0-9.]+ '
prints '^\*: a disturbed machine: the median is above 1\.3 times the minimum'
check "only those" test "$(grep -cE '^ +[0-9].*[0-9]\* ' out)" -eq "$(grep -c '"disturbed":1' torn.jsonl)"
run 0 merge calm.jsonl torn.jsonl --csv -
check "CSV has no star" test -z "$(grep -E '[0-9]\*' out)"
run 1 merge calm.jsonl
check "no star on a quiet machine" test -z "$(grep -E '[0-9]\*|^\*' out)"
echo '{"sweep":"s","point":1,"points":1,"us":1}' >odd.jsonl
run 0 merge odd.jsonl
check "what a result lacks is empty" test -z "$(grep -F '(null)' out)"
run 3 merge none1.jsonl;                                      says "none1.jsonl"
run 2 merge;                                                  says "needs a file of JSON lines"
: >empty.jsonl
run 2 merge empty.jsonl;                                      says "holds no result"
sed 's/"cpu":"[^"]*"/"cpu":"Other <b> CPU"/' shard2.jsonl >machine.jsonl
run 0 merge shard1.jsonl machine.jsonl shard3.jsonl --csv machine.csv
prints ' cpu$|  cpu  '
prints 'Other <b> CPU'
run 1 merge f.jsonl
prints '^ +1 +1 +failed'

tally
