#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Equations in the comments of emitted pairs, of every example, every vector and of drawn layers: they name no tensor that
# NAME_weights of the layer lacks, and the first comment names each that it has.
set -u
ATTNGEN=${ATTNGEN:-build/attngen}
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/out" "$tmp/specs"
for spec in examples/*.layer tests/vectors/*.layer tests/vectors/*/*.layer; do
    cp "$spec" "$tmp/specs/$(echo "${spec%.layer}" | tr / _ | tr -cd A-Za-z0-9_).layer" || exit 1
done

# What may stand beside each other, one line for each key; drawn by the number of the layer.
words=("input=shared input=split" "bias=true bias=false" "qk_norm=none qk_norm=rms qk_norm=layer qk_norm=l2"
       "rope=none rope=half" "softcap=none softcap=30" "alibi=false alibi=true" "sink=false sink=true"
       "relative=none relative=t5 relative=table" "w_k=dense w_k=tied" "w_v=dense w_v=identity" "w_o=dense w_o=none w_o=conv"
       "attention=self attention=cross" "block=none block=pre block=post block=parallel block=sandwich"
       "ffn=none ffn=relu ffn=swiglu" "ffn_bias=true ffn_bias=false" "norm=layer norm=rms" "train=false train=true"
       "mask=none mask=causal mask=padding mask=bool+additive" "cache=none cache=rows" "precision=f32 precision=i8"
       "weight_type=f32 weight_type=i4 weight_type=bf16" "h_kv=4 h_kv=2"
       "rel_keys=none rel_keys=heads rel_keys=shared" "rel_queries=none rel_queries=heads" "rel_biases=false rel_biases=true")
drawn=0 RANDOM=39
for ((i = 0; drawn < 40 && i < 2000; i++)); do
    spec=$tmp/specs/drawn_$i.layer
    printf 'd_model = 64\nh = 4\nseq_len = 24\n' > "$spec"
    for of in "${words[@]}"; do
        choices=($of)
        [ $((RANDOM % 2)) = 0 ] || { word=${choices[RANDOM % ${#choices[@]}]}; echo "${word%%=*} = ${word#*=}"; }
    done >> "$spec"
    if grep -q '^rel_[kq]' "$spec"; then echo 'rel_right = 5' >> "$spec"; fi
    if grep -q '^ffn = [rs]' "$spec"; then echo 'd_ff = 96' >> "$spec"; fi
    if grep -q '^cache = rows' "$spec"; then echo 'cache_len = 48' >> "$spec"; fi
    if grep -q '^relative = table' "$spec"; then printf 'rel_left = 3\nrel_right = 3\n' >> "$spec"; fi
    if "$ATTNGEN" --isa scalar -o "$tmp/out" "$spec" > /dev/null 2>&1; then drawn=$((drawn + 1)); else rm "$spec"; fi
done
[ "$drawn" -ge 40 ] || { echo "FAIL: only $drawn drawn layers are legal"; exit 1; }

failed=0 layers=0
for spec in "$tmp"/specs/*.layer; do
    name=$(sed -n 's/^name *= *\([A-Za-z0-9_]*\).*/\1/p' "$spec")
    name=${name:-$(basename "$spec" .layer)}
    "$ATTNGEN" --isa scalar -o "$tmp/out" "$spec" > /dev/null || { echo "FAIL: $spec"; failed=$((failed + 1)); continue; }
    layers=$((layers + 1))
    # the header shows which fields of NAME_weights are set
    set=$(sed 's/^ \* */ /' "$tmp/out/$name.h" | tr '\n' ' ' | grep -o 'weights *= *{[^}]*}' | head -1 | grep -o '\.[a-z0-9_]* *=' |
          tr -d '.= ' | grep -vx tables)
    awk -v name="$name" -v set="$(echo $set)" '
        BEGIN { most = split(set, all); for (i = 1; i <= most; i++) has[all[i]] = 1 }
        { text = $0; file = FILENAME; look() }
        function look(   word, line) {
            if (FNR == 1) { inside = 0; first = 1; taken = 0 }
            line = ""
            while (text != "") {
                if (!inside) { at = index(text, "/*"); if (!at) break; text = substr(text, at + 2); inside = 1 }
                at = index(text, "*/")
                if (!at) { line = line " " text; text = "" }
                else { line = line " " substr(text, 1, at - 1); text = substr(text, at + 2); inside = 0; ends = 1 }
            }
            if (file ~ /\.c$/ && first) banner = banner " " line
            if (ends && file ~ /\.c$/) first = 0
            ends = 0
            if (line ~ /b_0/) line = "" # words of tiles
            while (match(line, /[A-Za-z0-9_]+/)) {
                word = tolower(substr(line, RSTART, RLENGTH))
                line = substr(line, RSTART + RLENGTH)
                if (word ~ /^([wb]_[qkvog12]|[gc]_[qk]|[wg]_d(q|kv)|w_u[kv]|rel_bias|rel_bias_i|rel_[kquv]|rel_[uv]_i|sink_i)$/) {
                    sub(/_i$/, "", word)
                    named[word] = named[word] != "" ? named[word] : file ":" FNR
                }
            }
        }
        END {
            for (word in named) if (!(word in has)) { print named[word] ": names " word ", which the layer lacks"; bad = 1 }
            for (i = 1; i <= most; i++) {
                as = all[i]
                if (as ~ /^n[1-4]_[gb]$/) { if (banner !~ ("n_" substr(as, 4))) { print name ": the first comment lacks " as; bad = 1 }
                                            as = substr(as, 1, 2) "(" }
                if (as == "n1_g" || as == "n1(" && has["w"]) as = "n("
                if (index(tolower(banner), tolower(as)) == 0) { print name ": the first comment lacks " as; bad = 1 }
            }
            exit bad }' "$tmp/out/$name.h" "$tmp/out/$name.c" || { failed=$((failed + 1)); echo "  spec: $spec"; }
done
echo "$((layers - failed)) passed, $failed failed"
[ "$failed" = 0 ]
