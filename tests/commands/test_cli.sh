#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# attngen from outside: options, exit codes, what is written where, and that the same command gives the same bytes.
set -u
cd "$(dirname "$0")/../.." || exit 3
. tests/checks.sh
shown=(out err)

cd "$work" || exit 3
cat >tiny.layer <<'SPEC'
d_model = 64
h = 4
seq_len = 32
SPEC

# run STATUS ARGUMENT…: attngen must end with that status; its output goes to out and err
run() {
    local wanted=$1
    shift
    ends "$wanted" "$attngen" "$@"
    # a failure says why in words, and nothing but a failure writes to the error output
    if [ "$wanted" -eq 0 ]; then
        check "attngen $*: silent" test ! -s err
    else
        check "attngen $*: says why" grep -q error: err
    fi
}

absent() { check "$1 is not there" test ! -e "$1"; }
leaves() { check "in $1: $2" test "$(ls -A "$1" | tr '\n' ' ')" = "$2"; }

# ---- options ----

run 0 -h
check "-h shows the usage" grep -q '^usage: attngen' out
run 0 --help
check "help shows the usage" grep -q '^usage: attngen' out
for option in -o --isa --split --size --set --explain --batch --deps --templates --keys --version; do
    check "help shows $option" grep -q -e " $option" out
done
run 0 --keys
check "keys" grep -Eqx 'rope +none, half or interleaved' out
# key WORD…, of each key of docs/spec.md's table; then what --keys has and the table lacks
awk -F'|' '
    FNR == 1 { file++ }
    file == 1 && /^## Keys/ { inside = 1 }
    file == 1 && /^### / { inside = 0 }
    file == 1 && inside && /^\| `/ {
        for (i = split($2, name, "`"); i > 1; i -= 2)
            row[name[i - 1]] = $0
    }
    file == 1 && /^\| `/ { masks = masks $2 }
    file == 2 {
        key = $1
        sub(/ .*/, "", key)
        values = substr($0, length(key) + 1)
        sub(/^ +/, "", values)
        known = key == "plan.*" ? "plan.…" : key
        if (!(known in row))
            print "no row for " key
        if (values ~ /^(an? |the |how )/ && key != "mask")
            next
        sub(/^none, or any of /, "", values)
        sub(/ joined by .*/, "", values)
        for (i = split(values, word, /, | or /); i > 0; i--)
            if (word[i] != "false" && index(key == "mask" ? masks : row[known], "`" word[i] "`") == 0)
                print "no " word[i] " in the row of " key
    }' "$root/docs/spec.md" out >lacks
check "docs/spec.md has each key with its words" test ! -s lacks
rm lacks
run 0 --version
check "version" grep -Eqx 'attngen [0-9]+\.[0-9]+\.[0-9]+' out

run 2;                                says "needs a spec"
run 3 tiny.layer other.layer;         says "other.layer"
absent tiny.c
run 2 --no-such tiny.layer;           says "'--no-such'; see attngen --help"
run 2 --bathc 2 tiny.layer;           says "'--bathc'; did you mean '--batch'?"
run 2 --explian tiny.layer;           says "did you mean '--explain'?"
run 2 -x tiny.layer;                  says "'-x'"
run 2 tiny.layer -o;                  says "missing after '-o'"
run 2 tiny.layer --set;               says "missing after '--set'"
run 2 -o a -o b tiny.layer;           says "twice"
run 2 -o '' tiny.layer;               says "write a path"
run 2 --explain=yes tiny.layer;       says "'--explain=yes'"
run 2 --isa sse9 tiny.layer;          says "(did you mean 'sse4'?)"
run 2 --isa aarch64 tiny.layer;       says "(did you mean 'neon'?)"
run 3 -o tiny.layer tiny.layer;       says "tiny.layer: error: is a file; name a folder"
run 2 --isa '' tiny.layer;            says "--isa"
run 2 --set h tiny.layer;             says "--set"
run 2 --set h=5 tiny.layer;           says "--set"
run 2 --set nonsense=1 tiny.layer;    says "nonsense"
run 2 --set plan.nonsense=1 tiny.layer; says "the plan knows plan.unroll, "
run 2 --set plan.unrol=1 tiny.layer;  says "'plan.unrol'; did you mean 'plan.unroll'?"
run 2 --set plan.softmax=onepass tiny.layer; says "write auto, one_pass or two_pass (did you mean 'one_pass'?)"
run 2 --explain --deps d tiny.layer;  says "-o"
run 2 --size tiny tiny.layer;         says "fast or small"
run 2 --size fast --size fast tiny.layer; says "twice"
run 2 --set plan.size=tiny tiny.layer; says "auto, fast or small"
run 2 --size small --set plan.size=fast tiny.layer; says "plan.size"
run 2 --batch 2 tiny.layer;           says "--explain"
run 2 --explain --batch 0 tiny.layer; says "'0'"
run 2 --explain --batch 2x tiny.layer; says "'2x'"
run 2 --explain --batch 9999999999 tiny.layer; says "2147483647"
run 3 missing.layer;                  says "missing.layer"
leaves . "err out tiny.layer "

printf 'd_model = 64\nh = 5\nseq_len = 1\nnonsense = 1\n' >bad.layer
run 2 bad.layer
says "bad.layer:4: error: "
absent bad.c

# ---- what is written ----

run 0 -o one tiny.layer
leaves one "tiny.c tiny.h "
run 0 tiny.layer
check "here is the default" cmp one/tiny.c tiny.c
run 0 -o deep/er/est/ tiny.layer
check "folders are made" cmp one/tiny.h deep/er/est/tiny.h
run 0 -o two --set name=other tiny.layer
leaves two "other.c other.h "
mkdir elsewhere
check "the same from another folder" eval '(cd elsewhere && "$attngen" -o ../three ../tiny.layer)'
check "the same .c" cmp one/tiny.c three/tiny.c
check "the same .h" cmp one/tiny.h three/tiny.h
check "the same with another locale, umask and environment" \
    eval '(umask 077; env -i LC_ALL=de_DE.UTF-8 HOME=/ "$attngen" -o four "$work/tiny.layer")'
check "the same .c" cmp one/tiny.c four/tiny.c
run 0 -o five --templates "$root/templates" tiny.layer
check "templates from disk give the same .c" cmp one/tiny.c five/tiny.c
check "templates from disk give the same .h" cmp one/tiny.h five/tiny.h
run 2 --isa avx2,avx512 --set precision=bf16 tiny.layer; says "avx2: no dot product of bf16 there"
run 2 --isa avx2,avxvnni tiny.layer; says "avxvnni: 'tiny' has no products of whole numbers"
run 0 -o paired --isa avx512 --set precision=bf16 tiny.layer
run 0 -o paired_all --isa all --set precision=bf16 tiny.layer
check "all is what can" eval 'grep -q COMPILES_NEON paired_all/tiny.c && ! grep -qE "COMPILES_(AVX2|SSE4)" paired_all/tiny.c'
run 0 -o six --isa avx512,avx2 tiny.layer
run 0 -o seven tiny.layer --isa avx2,scalar,avx512
check "the order of the ISAs does not matter" cmp six/tiny.c seven/tiny.c
run 0 -o small --size small tiny.layer
run 0 -o set_small --set plan.size=small tiny.layer
check "--size is a --set" cmp small/tiny.c set_small/tiny.c
check "the banner repeats it" grep -qF 'attngen --set plan.size=small tiny.layer' small/tiny.c
check "small is less than four fifths of the text" test $(wc -c <small/tiny.c) -lt $(($(wc -c <one/tiny.c) * 4 / 5))
run 0 -o fast --size fast tiny.layer
plain() { grep -v -e '^ \*     attngen' -e '^ \* from the spec:' -e '^    {TINY_ISA_' -e '_PAIR != ' "$1"; } # who asked; numbers
check "fast is the default" eval 'plain fast/tiny.c >fast.c; plain one/tiny.c | cmp - fast.c'
check "no path in the product" eval '! grep -qF "$work" one/tiny.c one/tiny.h'

run 0 -o eight --isa scalar --set h=8 --set scale=0.5 tiny.layer
check "the product names its command" grep -qF 'attngen --isa scalar --set h=8 --set scale=0.5 tiny.layer' eight/tiny.c
check "the command repeats it" eval '(mkdir again && cd again && cp ../tiny.layer . &&
    "$attngen" --isa scalar --set h=8 --set scale=0.5 tiny.layer && cmp tiny.c ../eight/tiny.c)'

# what would end the first comment, or show other text than is there, is not repeated in it
odd=$'a\u202eb\u2028c\xff\e[31md/*e.layer'
mkdir -p "${odd%/*}" && cp tiny.layer "$odd"
run 0 -o quiet --set name=quiet --set 'plan.unroll=2 #/* */ /* \u2066' --set $'scale=1 #\u2067\x9b' "$odd"
cp tiny.layer $'b\u202e\u0085\xff\e[31m.layer'
run 0 -o quiet --set name=noisy $'b\u202e\u0085\xff\e[31m.layer'
check "the banner is plain text" eval '! LC_ALL=C grep -nP "[^\x20-\x7e]" quiet/noisy.c && ! LC_ALL=C grep -nP "[^\x20-\x7e]" quiet/quiet.c'
for name in quiet noisy; do
    check "and one comment: $name" "${CC:-gcc}" -std=c11 -Wall -Wextra -Werror -fsyntax-only quiet/$name.c
done

# ---- only what changed ----

touch -d 2001-01-01 one/tiny.c one/tiny.h
run 0 -o one tiny.layer
check "unchanged files are left alone" test "$(date -r one/tiny.c +%Y)" = 2001
echo "/* touched */" >>one/tiny.h
run 0 -o one tiny.layer
check "a changed file is written again" cmp one/tiny.h three/tiny.h
check "and its neighbour left alone" test "$(date -r one/tiny.c +%Y)" = 2001
leaves one "tiny.c tiny.h "
mkdir linked store
echo old >store/any.c
ln -s ../store/any.c linked/tiny.c
run 0 -o linked tiny.layer
check "a link stays a link" test -L linked/tiny.c
check "what it leads to is written" cmp store/any.c one/tiny.c
leaves store "any.c "

# ---- what cannot be written ----

echo x >file
run 3 -o file tiny.layer;        says "file: error: "
run 3 -o file/below tiny.layer
mkdir -p blocked/tiny.h
run 3 -o blocked tiny.layer;     says "blocked/tiny.h"
leaves blocked "tiny.h "
run 3 -o nine --deps missing/d.d tiny.layer; says "missing/d.d"
leaves nine ""
mkdir locked && chmod 555 locked
locked=locked
[ "$(id -u)" -eq 0 ] && locked=/proc # root may write anywhere else
run 3 -o $locked tiny.layer;     says "$locked/tiny.c: error: cannot be written"

# as on a full disk: this shell lets a program write files of one block only
check "a file that does not fit is an error" eval '(ulimit -f 1; trap "" XFSZ
    "$attngen" -o full tiny.layer >out 2>err; test $? -eq 3 && grep -q "full/tiny.c: error: cannot be written" err)'
leaves full ""
check "nor is it killed for it" eval '(ulimit -f 1; "$attngen" -o full tiny.layer >out 2>err; test $? -eq 3 &&
    grep -q "full/tiny.c: error: cannot be written: File too large" err)'
leaves full ""

# ---- what is no file on disk ----

mkfifo pipe
for odd in pipe /dev/zero .; do
    ends 3 timeout 20 "$attngen" "$odd";                    says "$odd: error: is a d"
    ends 3 timeout 20 "$attngen" --plan "$odd" tiny.layer;  says "$odd: error: is a d"
    ends 3 timeout 20 "$attngen" model "$odd";              says "$odd: error: is a d"
done
mkdir -p piped/interface && mkfifo piped/interface/kernel.c.in
ends 3 timeout 20 "$attngen" --templates piped tiny.layer;  says "piped/interface/kernel.c.in is a device, a pipe or a socket"
# less and less memory: it ends well or says that there is none, and leaves nothing half done
starved=0
for ((kib = 16000; kib > 2000; kib -= 250)); do
    (ulimit -v $kib; "$attngen" --version >/dev/null 2>&1) || break
    rm -rf nomem
    (ulimit -v $kib; "$attngen" -o nomem tiny.layer >out 2>err)
    case $? in
        0) check "$kib KiB: all is written" cmp nomem/tiny.c one/tiny.c ;;
        3) starved=$((starved + 1))
           check "$kib KiB: says why" grep -q error: err
           check "$kib KiB: nothing is written" eval '! ls nomem 2>/dev/null | grep .' ;;
        *) check "$kib KiB: status $?" false ;;
    esac
done
if [ $starved -eq 0 ]; then
    skip "no memory (the program either starts and finishes or does not start; is it a sanitized build?)"
fi

# ---- --explain ----

run 0 --explain --set name=explained tiny.layer
check "explains" grep -q d_model out
absent explained.c
run 0 --explain -o explained tiny.layer
leaves explained "tiny.c tiny.h "
cp out first
run 0 --explain tiny.layer
check "the same explanation" cmp out first
run 0 --explain --isa scalar --set precision=i8 --set d_k=32 --set d_v=32 --set plan.key_block=1024 tiny.layer
check "a block of keys that is cut" grep -q "key block 256.* the most that a sum of integers takes" out
run 0 --explain --isa scalar --set precision=i8 --set d_k=32 --set d_v=32 tiny.layer
check "bytes of weights are those of their type" grep -Eq '^  layer +32768 +32 KiB ' out
check "scales are no weights" test "$(grep -c '^      queries weights ' out)$(grep -c '^      queries scales ' out)" = 11
check "what sums of integers read" grep -q "weighted sums  scores f32, values in words i32 -> z f32" out
if [ -e /dev/full ]; then
    for option in --explain --help --keys --version; do
        "$attngen" $option tiny.layer >/dev/full 2>err
        check "$option on a full disk" test $? -eq 3
    done
    "$attngen" --explain tiny.layer >&- 2>err
    check "--explain on a closed output" test $? -eq 3
fi

# ---- --deps ----

mkdir "with space"
cp tiny.layer "with space/a#b \$c.layer"
run 0 -o "with space" --set name=x --deps x.d "with space/a#b \$c.layer"
check "the rule's spelling" grep -qxF 'with\ space/x.c with\ space/x.h: with\ space/a\#b\ $$c.layer' x.d
# a rule is only as good as what Make makes of it: paths with all that it reads in its own way
for odd in 'a b' 'c:d' 'e#f' 'g$h' 'k\l' 'm\ n' 'o\'; do
    mkdir -p "odd/$odd"
    cp tiny.layer "odd/$odd/s.layer"
    run 0 -o "odd/$odd" --set name=z --deps odd.d "odd/$odd/s.layer"
    touch -d 2020-01-01 "odd/$odd/z.c"
    touch -d 2021-01-01 "odd/$odd/s.layer"
    { echo 'include odd.d'; sed -n 's/\.c .*/.c:/p; q' odd.d; printf '\t@echo again\n'; } >rules
    check "make sees that odd/$odd/z.c is old" eval 'make -rf rules "odd/$odd/z.c" 2>err | grep -qx again'
    touch -d 2022-01-01 "odd/$odd/z.c"
    check "make sees that odd/$odd/z.c is new" eval 'make -rf rules "odd/$odd/z.c" 2>err | grep -q "up to date"'
done
# what Make has no spelling for, or Ninja or CMake reads otherwise: in a folder's name, and in a spec's
for odd in ';' '|' '=' '%' '*' '?' '[' '<' '>' '^' '`' '"' "'" '&' $'\n' $'\a' $'\t'; do
    mkdir -p "odd/q$odd"
    run 2 -o "odd/q$odd" --set name=z --deps odd.d tiny.layer; says "would misread the"
    cp tiny.layer "odd/q${odd}w.layer"
    run 2 -o odd --set name=z --deps odd.d "odd/q${odd}w.layer"; says "of this path in the rules of --deps"
    check "without --deps it is read" eval '(cd odd && "$attngen" --set name=y "q${odd}w.layer")'
done
for odd in '~x.layer' './~x.layer' 'x(1)' 'x\#y' 'x\:y' 'x\$y' 'x ' 'x:' 'x\'; do
    cp tiny.layer "$odd"
    run 2 --set name=z --deps odd.d "$odd"; says "would misread the"
done
hostile='x;touch${IFS}PWN;.layer'
cp tiny.layer "$hostile"
run 2 --set name=z --deps odd.d "$hostile"; says "would misread the ;"
absent z.c
cp tiny.layer 'ok(1)@{a},+!~b.layer'
run 0 -o odd --set name=z --deps odd.d 'ok(1)@{a},+!~b.layer'
printf 'odd/z.c:\n\t@echo again\ninclude odd.d\n' >rules
check "what is left Make reads as it is" eval 'touch -d 2100-01-01 ok* && make -rf rules odd/z.c 2>err | grep -qx again'
run 0 --deps tiny.d tiny.layer
check "the rule without -o" grep -qx 'tiny.c tiny.h: tiny.layer' tiny.d
cp -R "$root/templates" own
run 0 -o made --deps made.d --templates own tiny.layer
check "templates are in the rule" grep -q ' own/interface/kernel.c.in' made.d
printf 'made/tiny.c:\n\t@echo again\ninclude made.d\ninclude x.d\n' >rules
check "make reads it" eval 'make -f rules made/tiny.c 2>err | grep -q "up to date"'
touch -d 2100-01-01 own/interface/kernel.c.in
check "make sees a changed template" eval 'make -f rules made/tiny.c 2>err | grep -q again'

# ---- templates ----

run 3 --templates nowhere -o ten tiny.layer; says "nowhere/interface/kernel.c.in"
absent ten
for lua in 'os.execute("touch made_by_lua")' 'end io.open("made_by_lua", "w") do' 'error(require("os"))'; do
    cp "$root/templates/interface/kernel.h.in" own/interface && echo "\$ $lua" >>own/interface/kernel.h.in
    run 2 --templates own -o ten tiny.layer
    absent made_by_lua
done
cp "$root/templates/interface/kernel.h.in" own/interface
echo '$ no_such_name()' >>own/interface/kernel.h.in
run 2 --templates own -o ten tiny.layer
says "own/interface/kernel.h.in:$(wc -l <own/interface/kernel.h.in): error: unknown name 'no_such_name'"
absent ten

# ---- expressions ----

cat >terms.layer <<'SPEC'
d_model = 16
h = 2
seq_len = 8
table.slopes = 2
table.far = 8, 8
score = s * slopes[i] + far[p][j]
visible = j <= p
SPEC
run 0 -o terms terms.layer
check "the first comment has the score" grep -qx ' \*   score = s \* slopes\[i\] + far\[p\]\[j\]' terms/terms.c
check "the first comment has visible" grep -qx ' \*   visible = j <= p' terms/terms.c
{
    printf '#include <stdio.h>\n#include "terms.h"\n'
    printf 'void use(const float *w_q, const float *w_k, const float *w_v, const float *w_o, const float *slopes,\n'
    printf '         const float *far, const float *x, float *y, size_t batch, size_t n)\n{\n'
    sed -n '/^ \* Use:$/,/^ \*$/s/^ \*  //p' terms/terms.h
    echo '}'
} >terms/use.c
# shellcheck disable=SC2086 # flags
check "the header's use compiles" "${CC:-gcc}" $strict -c -o use.o terms/use.c
printf '#include <stdio.h>\n#include "terms/terms.h"\nint main(void) { return puts(terms_strerror(TERMS_ERROR_NULL)) < 0; }\n' >null.c
check "a program that asks what may be NULL" "${CC:-gcc}" -O0 -o null null.c terms/terms.c
./null >out
prints "NULL: to pack, packed, weights, in it w_q, w_k, w_v, w_o, tables; to open, blocks, packed; to compute, packed, scratch, args, in it x, y"
run 0 -o cached --set name=terms --set mask=causal --set cache=rows --set cache_len=64 --set cache_type=i8 tiny.layer
check "a program that asks it of a cache" "${CC:-gcc}" -O0 -Icached -include cached/terms.h -o null null.c cached/terms.c
./null >out
prints "args, in it x, past, y, k_cache, v_cache, k_scale, v_scale"
sed -i 's/^visible.*/visible = j > p + 8/' terms.layer
ends 0 "$attngen" -o terms terms.layer; says "terms.layer: warning: visible is never true: no query sees a key"

tally
