#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# attnrun tune and attngen --plan: a tuned layer, what the file says and what is made of it, what is refused, a wrong
# candidate, an interruption. Left out on purpose: whether a plan is fast, which only a quiet machine can tell
# (bench/tune), and the file's grammar (test_planfile.c).
#
#   tests/commands/test_tune.sh        ATTNGEN=build/attngen  ATTNRUN=build/attnrun
set -u
cd "$(dirname "$0")/../.." || exit 3
. tests/checks.sh
export XDG_CACHE_HOME=$work/cache TMPDIR=$work/tmp CFLAGS=-O1
shown=(out err)
mkdir "$work/tmp"
cd "$work" || exit 3

cat >small.layer <<'SPEC'
d_model = 32
h = 2
seq_len = 20
mask = causal
bias = true
SPEC

silent() { check "$1: silent" test ! -s err; }
absent() { check "$1 is not there" test ! -e "$1"; }
swept() { check "$1: nothing stays in TMPDIR" test -z "$(ls -A tmp)"; }

# ---- tuning ----

ends 0 "$attnrun" tune small.layer --budget 0 --json -o small.plan
cp out tuned.json
check "one JSON object" test "$(wc -l <out)" -eq 1
figures='"default_us":[0-9.e+]+,"tuned_us":[0-9.e+]+,"ratio":[0-9.]+,"ratio_low":[0-9.]+,"ratio_high":[0-9.]+,'
check "with the figures" grep -Eq "$figures" out
check "more than one plan was measured" grep -Eq '"measured":[1-9]' out
swept "tune"
check "format" grep -qx 'format = 1' small.plan
check "readable spec" grep -q '^spec = d_model=32 h=2 .* mask=causal .* bias=true' small.plan
check "fingerprint" grep -Eqx 'fingerprint = [0-9a-f]{16}' small.plan
check "compiler, with its flags" grep -q '^compiler = .*, -O1$' small.plan
check "one section" test "$(grep -c '^\[' small.plan)" -eq 1
isa=$(sed -n 's/^\[\(.*\)\]$/\1/p' small.plan)
if grep -q '"gained":true' tuned.json; then
    check "a gain beyond the noise is in the file" grep -q '^plan\.' small.plan
    check "its interval lies above 1" grep -Eq '"ratio_low":[1-9]' tuned.json
else
    check "within the noise the default is kept" test -z "$(grep '^plan\.' small.plan)"
    check "its interval reaches 1, the gain is too small, or the machine was disturbed" \
        grep -Eq '"ratio_low":(0\.|1\.0000)|"ratio":(0\.|1\.00[0-4])|"disturbed":1' tuned.json
fi
check "what was disturbed" grep -Eq '"dropped":[0-9]+,"disturbed":[01],"plan"' tuned.json
# with time to search, halve and join: what comes of it is the machine's affair
ends 0 "$attnrun" tune small.layer --budget 8 -o timed.plan
check "a verdict" grep -Eq "^small $isa: (gained|no gain|none of|no other plan|the machine|[0-9]+ plans)" out
check "and its file" grep -qx "\[$isa\]" timed.plan
swept "a budget"

ends 2 "$attnrun" tune small.layer;                         says "tune needs --out FILE"
ends 2 "$attnrun" tune -o x.plan;                           says "tune needs one spec"
ends 2 "$attnrun" tune small.layer -o x.plan --set h=3;     says "h = 3 does not divide"
ends 2 "$attnrun" tune small.layer -o x.plan --budget many; says "--budget cannot be 'many'"
ends 2 "$attnrun" tune small.layer -o x.plan --plan small.plan
ends 2 "$attnrun" tune small.layer -o x.plan --n 21;        says "n = 21 is past seq_len = 20"
ends 3 "$attnrun" tune small.layer -o no/where.plan --budget 0
says "no/where.plan"
absent x.plan
ends 3 env CC=false "$attnrun" tune small.layer -o x.plan --budget 0
absent x.plan
swept "a missing compiler"

# ---- a plan of every key, made by hand ----

sed '/^plan\./d' small.plan >plain.plan
sed '/^\[/,$d' plain.plan >full.plan
cat >>full.plan <<'PLAN'
plan.fold = on

[scalar]
cpu = Another
compiler = another
plan.query_vecs = 3
plan.unroll = 3
plan.softmax = two_pass

[avx2]
cpu = Another
compiler = another
plan.panel_vecs = 1
plan.panel_rows = 3
plan.panel_depth = 8
plan.lane_rows = 3
plan.score_rows = 3
plan.value_rows = 3
plan.batch_rows = 40
plan.key_block = 5
plan.value_layout = rows

[avx512]
cpu = Another
compiler = another
plan.softmax = two_pass
plan.value_layout = blocks
plan.depth_slab = 5
plan.group_rows = 1
plan.prefetch = on
PLAN
ends 0 "$attngen" --plan full.plan --any-cpu -o one small.layer
silent "--any-cpu"
check "the banner names the file" grep -qF 'attngen --plan full.plan small.layer' one/small.c
check "and what it asks for" grep -qF 'from the plan file: plan.unroll = 3, plan.query_vecs = 3' one/small.c
mkdir else
cp small.layer full.plan else
(cd else && env -i "$attngen" --plan full.plan --any-cpu -o ../two --deps ../two.d small.layer) >out 2>err
check "the same bytes from another folder" diff -r one two
check "--deps lists the plan" grep -q 'small.layer full.plan' two.d
ends 0 "$attngen" --plan full.plan -o three small.layer
if grep -q '^model name' /proc/cpuinfo; then
    line=$(grep -n '^\[scalar' full.plan | cut -d: -f1)
    says "full.plan:$line: warning: the scalar plan was measured on 'Another', this is '"
    check "a warning for each section" test "$(grep -c 'warning:' err)" -eq 3
else
    skip "/proc/cpuinfo names no CPU to warn of" 2
fi
check "the same bytes with the warning" diff -r one three
sed 's/^cpu = .*/cpu = One more/; s/^compiler = .*/compiler = one more/' full.plan >else/full.plan
ends 0 "$attngen" --plan else/full.plan --any-cpu -o four small.layer
check "the same bytes whatever CPU and compiler it names" diff -r one four
ends 0 "$attngen" -o without small.layer
check "other bytes without the plan" test "$(cmp -s one/small.c without/small.c; echo $?)" -eq 1
ends 0 "$attngen" --plan plain.plan --any-cpu -o plain small.layer
for file in without plain; do grep -v SMALL_PAIR $file/small.c >$file.text; done # the number of both texts
check "an empty plan is the default but for the command" test "$(diff without.text plain.text | grep -c '^>')" -eq 1

ends 0 "$attnrun" check small.layer --plan full.plan --isa all
says "was measured with 'another'"
check "every instruction set is right" grep -q '0 failed' out
ends 0 "$attnrun" check small.layer --plan small.plan
silent "check with the plan of this machine"
ends 0 "$attnrun" bench small.layer --plan small.plan --isa "$isa" --rounds 1 --seconds 0
check "bench: a heading and the layer" test "$(grep -c '^small \|^layer ' out)" -ge 2
ends 0 "$attnrun" bench small.layer --plan small.plan --isa "$isa" --rounds 1 --seconds 0 --json
check "bench: every step says how quiet it was" \
    test "$(grep -Ec '"switches":[0-9]+,"disturbed":[01],"gflops"' out)" -eq "$(wc -l <out)"
printf '%s\n' 'd_model = 32' 'h = 4' 'seq_len = 8' 'mask = causal' 'cache = rows' 'cache_len = 8' 'precision = i8' \
    >whole.layer
ends 0 "$attnrun" bench whole.layer --isa scalar --n 8 --past 0 --rounds 1 --seconds 0 --json
check "bench: bytes of weights are those of their type" grep -q '"step":"layer".*"bytes":4096,' out
check "bench: rounding is a step" grep -q '"step":"round x"' out
ends 2 "$attnrun" bench small.layer --n 21;                 says "n = 21 is past seq_len = 20"
check "no heading without figures" test ! -s out
ends 2 "$attnrun" bench small.layer --batch 0;              says "n, m and batch must be at least 1"
sed -i 's/^plan.query_vecs = 3/plan.query_vecs = 2/' full.plan
ends 0 "$attnrun" check small.layer --plan full.plan --isa scalar
check "a changed file is compiled anew" test "$(find cache -name '*.so' -newer three/small.c | wc -l)" -ge 2

# ---- what does not fit ----

ends 2 "$attngen" --plan small.plan -o x --set h=4 small.layer
says "small.plan:4: error: the plan is for another layer: h=2, here h=4; h_kv=2, here h_kv=4; d_k=16, here d_k=8"
ends 2 "$attnrun" check small.layer --plan small.plan --set seq_len=21
says "seq_len=20, here seq_len=21"
ends 2 "$attngen" --any-cpu small.layer;                    says "--any-cpu needs --plan"
ends 2 "$attngen" --plan small.plan --plan small.plan small.layer
ends 3 "$attngen" --plan missing.plan small.layer;          says "missing.plan: error: cannot be read"
ends 3 "$attngen" --plan . small.layer;                     says "is a directory; give the path of a plan file"
ends 2 "$attngen" --plan small.layer -o x small.layer;      says "small.layer: error: is a spec; give the path of a plan file"
{ cat plain.plan; echo 'plan.hurry = 9'; } >bad.plan
ends 2 "$attngen" --plan bad.plan -o x small.layer;         says "unknown key 'plan.hurry'; the plan knows plan.unroll"
{ cat plain.plan; echo 'plan.unroll = 0'; } >bad.plan
ends 2 "$attngen" --plan bad.plan -o x small.layer;         says "plan.unroll = 0 is not a legal value"
{ cat plain.plan; echo "[$isa]"; } >bad.plan
ends 2 "$attngen" --plan bad.plan -o x small.layer;         says "$isa occurs twice"
absent x

# ---- a candidate that is wrong ----

# whoever asks something of a plan loses a key, but for the scalar kernel, which candidates do not check
for what in 'broken keys -= keys > 1;' 'crashing __builtin_trap();'; do
    cp -r "$root/templates" "${what%% *}"
    fault='$ if plan.isa.name ~= "scalar" and plan.reasons[1]:find("^from the") then\n    '${what#* }'\n$ end'
    sed -i "/^TARGET static void sums_\${vecs}x_\${ISA}(/,/^{/ s/^{/{\n$fault/" "${what%% *}/steps/values.in"
done
if [ "$isa" = scalar ]; then
    skip "a wrong candidate, as this machine has the scalar kernel alone"
else
    cp small.plan before.plan
    ends 1 "$attnrun" tune small.layer --templates broken --budget 0 -o small.plan
    says "a plan makes a kernel that is wrong"
    check "and which" grep -q "^FAILED  small $isa: plan\." err
    check "how to repeat it" grep -Eq "repeat: .*attnrun check small.layer .*--set 'plan\.[a-z_]+=" err
    check "the old file stays" cmp -s small.plan before.plan
    sed -n "s|^ *repeat: \(.*\)attnrun|\1'$attnrun'|p" err | head -1 >repeat
    ends 1 sh repeat
    check "which shows the fault" grep -q '^FAILED' out
    swept "a wrong candidate"
    ends 1 "$attnrun" tune small.layer --templates crashing --budget 0 -o small.plan
    says "a plan makes a kernel that is wrong"
    says "the kernel was killed by signal "
    check "the old file stays after a crash" cmp -s small.plan before.plan
    swept "a candidate that crashes"
fi

# ---- a compiler that takes longer than there is time ----

# it makes the default and sleeps over other plans; with the file "always" over everything
cat >sleepy <<'EOF'
#!/bin/sh
for last; do :; done
case $last in
*.c) if [ -s always ] || grep 'from the plan file' "$last" | grep -qv 'plan.size = small$'; then
        echo $$ >sleeper
        exec sleep 300
    fi ;;
esac
exec cc "$@"
EOF
chmod +x sleepy
# asleep STATUS BUDGET FILE: tune with it ends long before it would; only how long the default takes is the machine's
asleep() {
    CC=$work/sleepy timeout 200 "$attnrun" tune small.layer --budget "$2" -o "$3" >out 2>err
    ended=$?
    check "asleep for $2 s: ends by itself, $ended" test $ended -eq "$1" -o $ended -eq 2
    check "the compiler is ended" test -z "$([ -s sleeper ] && kill -0 "$(cat sleeper)" 2>/dev/null && echo alive)"
    swept "a compilation without end"
    [ $ended -ne 2 ] || says "$2 s are not enough to compile the default; give more, or 0 for one other plan"
}
asleep 0 10 asleep.plan
if [ $ended -eq 0 ]; then
    check "no plan is measured, and what would be enough" \
        grep -Eq "no other plan could be measured in 10 s, the default is kept; --budget [0-9]+ is enough" out
    check "the file keeps the default" test -z "$(grep '^plan\.' asleep.plan)"
else
    skip "too slow a machine to compile the default in 10 s" 2
fi
echo yes >always
XDG_CACHE_HOME=$work/empty asleep 2 1 x.plan
absent x.plan

# ---- interrupted ----

# a compiler that will not end, with a child that writes late
cat >stubborn <<'EOF'
#!/bin/sh
case "$*" in *--version*) echo "stubborn 1"; exit ;; esac
trap '' TERM
(sleep 4; echo late >"$TMPDIR/late") &
echo $$ >pid
echo "$TMPDIR" >started
sleep 60
EOF
chmod +x stubborn
CC=$work/stubborn "$attnrun" check small.layer --isa scalar >out 2>err &
checker=$! began=$SECONDS
for _ in $(seq 100); do
    [ -s started ] && break
    sleep 0.1
done
check "the compiler's TMPDIR is ours" test -n "$(sed -n "\|^$TMPDIR/attnrun-|p" started)"
kill "$checker"
wait "$checker" 2>/dev/null
check "a compiler that ignores SIGTERM is not waited for" test $((SECONDS - began)) -lt 30
sleep 4
swept "a compiler that ignores SIGTERM"
check "nor does it live on" test -z "$(kill -0 "$(cat pid)" 2>/dev/null && echo alive)"

for signal in TERM KILL; do
    echo old >old.plan
    "$attnrun" tune small.layer --budget 600 -o old.plan >out 2>err &
    tuner=$!
    for _ in $(seq 300); do
        grep -q 'plan\.' out && break
        sleep 0.1
    done
    kill -"$signal" "$tuner"
    wait "$tuner" 2>/dev/null
    check "SIG$signal: the old file stays" test "$(cat old.plan)" = old
    check "SIG$signal: no other file stays" test "$(ls old.plan* | wc -l)" -eq 1
    [ "$signal" = KILL ] || swept "SIG$signal"
done

tally
