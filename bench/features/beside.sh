#!/bin/sh
# SPDX-License-Identifier: MIT
# beside.sh OUT: layers side by side, in one process, in turns, by CPU time (beside.c). One table in Markdown for each of
#   terms      what is between projection and softmax, on gpt2 and bert_base, and expressions that spell the same
#   documents  16 segments of 64 tokens in a row of 1,024 over a batch of 16 x 64
#   padded     8 sentences padded to 182, rows of padding skipped, over 8 calls at their own lengths
#   sparse     `visible` with a quarter of the blocks over a layer that sees all; causal and a window beside their expressions
# for each instruction set. Into OUT goes beside.md.
#
#   BESIDE_ISA      (avx2 avx512)    BESIDE_SECONDS  of one table (30)    BESIDE_TABLES  of those above (all)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
examples=$here/../../examples
out=$1
: "${ATTNGEN:=build/attngen}" "${BESIDE:=build/beside}"
export ATTNGEN
mkdir -p "$out/layers"

# layer NAME LINE…: a spec; prints its path
layer() {
    spec=$out/layers/$1.layer
    { echo "name = $1"; shift; printf '%s\n' "$@"; } > "$spec"
    echo "$spec"
}

# line SPEC LABEL WORD…: a line for beside.c; KEY=VALUE words are settings but calls= and segments=
line() {
    spec=$1
    printf '%s' "$2"
    shift 2
    for word; do
        case $word in
        --*|calls=*|segments=*|[0-9]*) printf '\t%s' "$word" ;;
        *) printf '\t--set\t%s' "$word" ;;
        esac
    done
    printf '\t%s\n' "$spec"
}

terms() { # of a base
    line "$1" base
    line "$1" again
    line "$1" rope rope=half
    line "$1" rope_interleaved rope=interleaved
    line "$1" rope_given rope=half rope_positions=given
    line "$1" rms qk_norm=rms
    line "$1" rms_all qk_norm=rms_all
    line "$1" layer_norm qk_norm=layer
    line "$1" l2 qk_norm=l2
    line "$1" rope_rms rope=half qk_norm=rms
    line "$1" alibi alibi=true
    line "$1" 'alibi, spelled' 'score=s - abs(slope[i]) * abs(p - j)' table.slope=12
    line "$1" softcap softcap=30
    line "$1" 'softcap, spelled' 'score=30 * tanh(s / 30)'
    line "$1" t5 relative=t5
    line "$1" table relative=table rel_left=128 rel_right=128
    line "$1" 'table, spelled' 'score=s + t[i][j - p + 128]' 'table.t=12, 257'
    line "$1" sink sink=true
    line "$1" lse lse=true
}

lengths=182,12,17,25,38,44,61,70

lines() {
    case $1 in
    terms_*) terms "$examples/${1#terms_}.layer" ;;
    documents)
        spec=$(layer documents 'd_model = 768' 'h = 12' 'seq_len = 1024')
        line "$spec" 'batch of 16 x 64' seq_len=64 --batch 16
        line "$spec" '16 segments in 1,024' mask=segments segments=64
        line "$spec" 'batch, causal' seq_len=64 mask=causal --batch 16
        line "$spec" 'segments, causal' mask=causal+segments segments=64 ;;
    padded)
        spec=$(layer padded 'd_model = 384' 'h = 12' 'seq_len = 182' 'mask = padding' 'bias = true')
        line "$spec" '8 calls' --batch 8 calls=$lengths
        line "$spec" '8 calls again' --batch 8 calls=$lengths
        line "$spec" skipped pad_rows=skipped --batch 8 --lengths $lengths
        line "$spec" computed --batch 8 --lengths $lengths ;;
    sparse)
        spec=$(layer sparse 'd_model = 768' 'h = 12' 'seq_len = 1024')
        line "$spec" 'all'
        line "$spec" 'a quarter, blocks of 128' 'visible=(p // 128 + j // 128) % 4 == 0'
        line "$spec" 'a quarter, blocks of 64' 'visible=(p // 64 + j // 64) % 4 == 0'
        line "$spec" 'a quarter, blocks of 32' 'visible=(p // 32 * 7 + j // 32 * 3) % 4 == 0'
        line "$spec" '4 documents' 'visible=p // 256 == j // 256'
        line "$spec" causal mask=causal
        line "$spec" 'causal, spelled' 'visible=j <= p'
        line "$spec" window mask=window window_left=127 window_right=127
        line "$spec" 'window, spelled' 'visible=abs(p - j) < 128' ;;
    *) echo "bench-beside: there is no table $1" >&2; exit 3 ;;
    esac
}

status=0
for isa in ${BESIDE_ISA:-avx2 avx512}; do
    for table in ${BESIDE_TABLES:-terms_gpt2 terms_bert_base documents padded sparse}; do
        [ "$table" != terms ] || table=terms_gpt2
        echo "bench-beside: $table, $isa" >&2
        # labels hold blanks: to the program they go without
        lines "$table" | awk -F'\t' -v OFS='\t' '{ gsub(/ /, "_", $1); print }' > "$out/lines"
        if ! "$BESIDE" "$isa" "${BESIDE_SECONDS:-30}" < "$out/lines" > "$out/times"; then
            status=3
            continue
        fi
        awk -v title="$table, $isa" '
            { us[$1, $2] = $3; ratio[$1, $2] = $5; q1[$1, $2] = $6; q3[$1, $2] = $7; best[$1, $2] = $8
              if (!seen[$1]++) order[++count] = $1 }
            END {
                print "\n**" title "**\n"
                print "| | µs | times the first | quartiles | fastest calls | attention | fastest calls |"
                print "| --- | --: | --: | --: | --: | --: | --: |"
                for (i = 1; i <= count; i++) {
                    label = order[i]
                    text = label
                    if (label !~ /^(rope|rms|layer)_/) gsub(/_/, " ", text)
                    printf "| %s | %.0f | %.3f | %.3f … %.3f | %.3f | %.3f | %.3f |\n", text, us[label, "layer"], \
                        ratio[label, "layer"], q1[label, "layer"], q3[label, "layer"], best[label, "layer"], \
                        ratio[label, "attend"], best[label, "attend"]
                }
            }' "$out/times"
    done
done | tee "$out/beside.md"
exit "$status"
