#!/bin/sh
# SPDX-License-Identifier: MIT
# tune.sh OUT: what attnrun tune gains over the default plan, shape by shape.
#
# Each figure is that of tune's last, fresh run: the default and the tuned kernel alternating, medians of nine sessions,
# and the interval in which the true ratio lies with 96 %. "-" under plan: nothing was gained, the default is kept. Into
# OUT go tune.md, tune.json (a line a shape) and the plan files.
#
#   TUNE_SHAPES   examples to tune, or paths of specs   (ten of them)
#   TUNE_ISA      --isa of attnrun tune                 (the best that this machine has)
#   TUNE_BUDGET   seconds for each shape                (120)
#
# Ends with 1 if a plan was wrong, 3 if something is missing.
set -eu
here=$(dirname "$0")
out=$1
: "${ATTNRUN:=build/attnrun}"
shapes=${TUNE_SHAPES:-tiny kws minilm bert_base gpt2 vit_b16 transformer_base whisper_tiny decoder_cross grouped}
budget=${TUNE_BUDGET:-120}

mkdir -p "$out"
: >"$out/tune.json"
{
    echo "| shape | ISA | default µs | tuned µs | ratio | 96 % interval | plans measured | plan |"
    echo "| --- | --- | --- | --- | --- | --- | --- | --- |"
} | tee "$out/tune.md"
for shape in $shapes; do
    case $shape in */*) spec=$shape ;; *) spec=$here/../../examples/$shape.layer ;; esac
    name=$(basename "$shape" .layer)
    "$ATTNRUN" tune "$spec" ${TUNE_ISA:+--isa "$TUNE_ISA"} --budget "$budget" --json -o "$out/$name.plan" \
        >"$out/last.json" 2>"$out/$name.log" || { code=$?; cat "$out/$name.log" >&2; exit $code; }
    cat "$out/last.json" >>"$out/tune.json"
    # {"name":"…","isa":"…","default_us":1,…}: strings hold no comma but the plan, which is last
    awk -F '[:,]' '{
        gsub(/["{}]/, "")
        plan = $0
        sub(/.*,plan:/, "", plan)
        printf "| %s | %s | %s | %s | %s | %s to %s | %s | %s |\n", $2, $4, $6, $8, $10, $12, $14, $20,
               $16 == "true" ? plan : "-"
    }' "$out/last.json" | tee -a "$out/tune.md"
done
rm -f "$out/last.json"
grep -m 1 '^model name' /proc/cpuinfo 2>/dev/null | sed 's/.*: /CPU: /' || :
