#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The page of attnrun sweep and merge.
#
# Most pages are of made-up results, so that every number is known; one is of a sweep of a tiny layer.
set -u
cd "$(dirname "$0")/../.." || exit 3
. tests/commands/sweeps.sh
shown=(err)

has() { check "$1 has $2" grep -qF -- "$2" "$1"; }
lacks() { check "$1 lacks $2" test "$(grep -cF -- "$2" "$1")" -eq 0; }
count() { check "$1 has $3 times $2, not $(grep -oE -- "$2" "$1" | wc -l)" test "$(grep -oE -- "$2" "$1" | wc -l)" -eq "$3"; }

# wellformed FILE: as XML, which is stricter than HTML
wellformed() {
    if command -v xmllint >/dev/null; then
        check "$1 is well-formed" xmllint --noout --nonet "$1"
    elif command -v python3 >/dev/null; then
        check "$1 is well-formed" python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$1"
    else
        skip "$1 as XML: no xmllint, no python3"
    fi
}

# point NUMBER OF VARY FIELDS: a result without numbers
common='"sweep":"s","version":"0","spec":"small.layer","shard":"1/1"'
point() { echo "{$common,\"id\":\"$1\",\"point\":$1,\"points\":$2,\"shard_points\":$2,\"vary\":\"$3\",$4}"; }

# measured OF VARY: results from lines of FIELDS|US, numbered as they come
measured() {
    awk -F'|' -v of="$1" -v vary="$2" -v common="$common" '{
        printf "{%s,\"id\":\"%d\",\"point\":%d,\"points\":%d,\"shard_points\":%d,\"vary\":\"%s\",%s,\"status\":\"ok\",",
            common, NR, NR, of, of, vary, $1
        printf "\"us\":%.6g,\"us_min\":%.6g,\"us_q3\":%.6g,\"us_max\":%.6g}\n", $2, $2 * 0.9, $2 * 1.1, $2 * 9
    }'
}

# ---- three keys: every quantity, a disturbed point, folded ones, points without numbers ----

for h in 8 1 4 2; do
    for n in 128 8; do
        for width in narrow wide; do
            if [ $width = wide ]; then times=2 folded=scores; else times=1 folded=none; fi
            echo "\"h\":$h,\"width\":\"$width\",\"n\":$n,\"isa\":\"scalar\",\"cpu\":\"A CPU\",\"folded\":\"$folded\"," \
                "\"disturbed\":$((h == 4 && n == 8 && times == 1)),\"parameters\":$((h * times * 100))," \
                "\"multiply_adds\":$((h * times * n * 100)),\"scratch_bytes\":$((h * 1024)),\"compile_s\":0.$h," \
                "\"share\":$times.$h$n,\"gflops\":$times.$h$n,\"peak_gflops\":1|$((h * n * times / 8))"
        done
    done
done | measured 18 h,width,n >three.jsonl
point 17 18 h,width,n '"h":3,"width":"narrow","n":8,"status":"illegal","reason":"3 is < 4 & odd"' >>three.jsonl
point 18 18 h,width,n '"h":5,"width":"narrow","n":8,"status":"failed","reason":"it said \"no\"\nand '"don't\"" >>three.jsonl
run 1 merge three.jsonl --html page.html
wellformed page.html
for wanted in '<html lang="en">' 'name="viewport"' 'prefers-color-scheme: dark' '<title>small.layer: h × width × n</title>' \
    '18 of 18 points, 16 measured, 1 failed, 1 illegal, 1 disturbed.' '<caption>' \
    '<th scope="col" class="text" aria-sort="none">' '>scores</td>' \
    'A share of peak above 100 % is no mistake' '*: a disturbed machine' 'aria-labelledby="points" tabindex="0"' \
    '1 illegal: 3 is &lt; 4 &amp; odd<br/>h = 3, width = narrow, n = 8</li>' '1 failed: it said &quot;no&quot;'; do
    has page.html "$wanted"
done
count page.html '<th scope="row" data-value="[0-9]+">' 18
count page.html '<abbr title="disturbed">\*</abbr>' 3
count page.html 'position: sticky; z-index' 4
lacks page.html '>outliers<'
fetched='(src|href)="?(https?:|//)|url\(|@import|<link|<iframe|<img|fetch\(|XMLHttp|import\('
check "nothing is fetched" test -z "$(grep -Eo "$fetched" page.html)"
check "no id occurs twice" test -z "$(grep -Eo ' id="[^"$]*"' page.html | sort | uniq -d)"
run 1 merge three.jsonl --html again.html
check "the same results make the same bytes" cmp page.html again.html

# ---- reasons that differ in numbers are one; the layer stands on top without what is varied; medians are less sure ----

for h in 3 5 6 7; do
    point $h 9 h,n "\"h\":$h,\"n\":9,\"status\":\"illegal\",\"reason\":\"h = $h does not divide 8.$h\""
done >why.jsonl
point 8 9 h,n '"h":8,"n":9,"status":"illegal","reason":"h = 8 divides it"' >>why.jsonl
printf '{%s,"id":"9","point":9,"points":9,"shard_points":9,"vary":"h,n","h":1,"n":9,"status":"ok",%s,%s}\n' "$common" \
    '"settings":"name = x; d_model = 8; h = 1; seq_len = 9"' '"us":1.2,"us_min":1,"us_q3":1.3' >>why.jsonl
run 1 merge why.jsonl --html why.html
wellformed why.html
has why.html '4 illegal, the first: h = 3 does not divide 8.3<br/>h = 3, n = 9; h = 5, n = 9; h = 6, n = 9; h = 7, n = 9</li>'
has why.html '1 illegal: h = 8 divides it<br/>h = 8, n = 9</li>'
has why.html '<p class="layer">d_model = 8; seq_len = 9</p>'
has why.html '<abbr title="less sure">~</abbr>'

# ---- what others wrote is text: a processor's name, a spec's, a value ----

strange='O'"'"'Brien'"'"'s \"<b>\" & ünï </script>'
long=$(printf 'x%.0s' {1..78})ü # some cut a text at 79 bytes
for i in 1 2 3 4; do
    printf '"h":%d,"cpu":"%s"|%d\n' $i "$([ $i -gt 2 ] && echo "$strange" || echo "$long")" $i
done | measured 4 h | sed "s|small.layer|it's <i>.layer|" >odd.jsonl
run 0 merge odd.jsonl --html odd.html
wellformed odd.html
has odd.html '<title>it&#39;s &lt;i&gt;.layer: h</title>'
has odd.html 'O&#39;Brien&#39;s &quot;&lt;b&gt;&quot; &amp; ünï &lt;/script&gt;'
count odd.html ">$long<" 2
lacks odd.html '<b>'
lacks odd.html '<i>'

# ---- many points and values, results of an older attngen, one point, none ----

for n in $(seq 30); do
    for word in $(seq 66); do
        echo "\"n\":$n,\"width\":\"w$word\"|$((n * word))"
    done
done | measured 1980 n,width >many.jsonl
run 0 merge many.jsonl --html many.html
wellformed many.html
count many.html '<th scope="row"' 1980

for i in 1 2; do
    point $i 2 h "\"h\":$i,\"status\":\"ok\",\"us\":$i.5"
done >old.jsonl
run 0 merge old.jsonl --html old.html
wellformed old.html
lacks old.html 'above 100 %'
lacks old.html 'disturbed machine'
lacks old.html 'folded</button>'

echo '"isa":"scalar"|2.5' | measured 1 isa >one.jsonl
run 0 merge one.jsonl --html one.html
wellformed one.html
point 1 1 h '"h":3,"status":"illegal","reason":"no"' >none.jsonl
run 0 merge none.jsonl --html none.html
wellformed none.html

# ---- a sweep; of other programs it needs the compiler alone ----

mkdir tools
for tool in cc gcc as ld; do ln -s "$(command -v $tool)" tools/$tool; done
printf 'd_model = 8\nh = 2\nseq_len = 20\n' >small.layer
PATH=$work/tools run 0 sweep small.layer --vary n=4,20 "${quick[@]}" --html sweep.html
wellformed sweep.html
count sweep.html '<th scope="row" data-value="[12]">' 2

tally
