# SPDX-License-Identifier: MIT
# Ratios of feature to base, measured and predicted: a Markdown table, a CSV, and the features that cost too much.
# Needs ../flat/quantile.awk. Files: bases ("BASE D_MODEL H N"), table ("FEATURE BYTES"), points ("BASE FEATURE"), predicted (see features.sh),
# measured ("BASE FEATURE ROUND base|feature ISA MICROSECONDS SHARE FASTEST PEAK GFLOPS",
# see ../flat/layer.awk).

function out(text) {
    print text
    print text > markdown
}

FNR == 1 { file++ }
file == 1 { width[$1] = $2; pairs[$1] = $3 * $4 * $4; length_of[$1] = $4; heads[$1] = $3; next }
file == 2 { bytes[$1] = $2; next }
file == 3 { point[++points] = $1 " " $2; next }
file == 4 && $3 == "multiply-adds" { work[$1 " " $2] = $4; next }
file == 4 {
    model[$1 " " $2 " " $4] = $5
    if (!($4 in seen)) { seen[$4] = 1; isa[++isas] = $4 }
    next
}
{
    key = $1 " " $2 " " $5
    at = key " " $3
    measures[$5] = 1
    if (!($6 > 0 && $8 > 0)) {
        print "bench-features: no figures in: " $0 > "/dev/stderr"
        bad = 1
        exit
    }
    if ($4 == "base") base_us[at] = $6
    else feature_us[at] = $6
    if (!((key, $4) in fastest) || $8 < fastest[key, $4]) fastest[key, $4] = $8
    if ((at in base_us) && (at in feature_us)) {
        ratios[key] = ratios[key] " " feature_us[at] / base_us[at]
        times[key] = times[key] " " feature_us[at]
    }
}

END {
    if (bad)
        exit 3
    print "base,feature,isa,us,measured,quartile_1,quartile_3,fastest,arithmetic,deviation,model,bytes" > csv
    out("Times base: the feature's time over that of the base measured beside it, median and quartiles over the rounds; fastest")
    out("calls: the ratio of the two fastest; deviation: of that ratio from what the multiply-adds predict; model: the ratio that")
    out("attngen --explain expects.")
    for (k = 1; k <= isas; k++) {
        before = ""
        for (i = 1; i <= points; i++) {
            split(point[i], p, " ")
            key = point[i] " " isa[k]
            if (!(key in ratios)) {
                if ((isa[k] in measures) && p[2] != "base") # a set that this machine lacks is passed over
                    lost[++losses] = key
                continue
            }
            if (p[1] != before) {
                before = p[1]
                out(sprintf("\n**%s, %s**: d_model %d, %d heads, n = %d\n", p[1], isa[k], width[p[1]], heads[p[1]], \
                            length_of[p[1]]))
                out("| feature | µs | times base | quartiles | fastest calls | arithmetic | deviation | model | n·m traffic |")
                out("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
            }
            base = p[1] " base"
            measured = quantile(ratios[key], 0.5)
            q1 = quantile(ratios[key], 0.25)
            q3 = quantile(ratios[key], 0.75)
            arithmetic = work[point[i]] / work[base]
            expected = arithmetic * model[base " " isa[k]] / model[key]
            best = fastest[key, "feature"] / fastest[key, "base"]
            deviation = 100 * (best / arithmetic - 1)
            extra = bytes[p[2]] * pairs[p[1]]
            traffic = extra > 0 ? sprintf("%.1f MiB", extra / 1048576) : ""
            out(sprintf("| %s | %.1f | %.3f | %.3f ... %.3f | %.3f | %.3f | %+.1f %% | %s | %s |", p[2], \
                        quantile(times[key], 0.5), measured, q1, q3, best, arithmetic, deviation, \
                        p[2] == "padding_half" ? "" : sprintf("%.3f", expected), traffic))
            printf "%s,%s,%s,%.4g,%.4f,%.4f,%.4f,%.4f,%.4f,%.2f,%.4f,%.0f\n", p[1], p[2], isa[k], \
                quantile(times[key], 0.5), measured, q1, q3, best, arithmetic, deviation, expected, extra > csv
            count++
            if (deviation > limit) # who shares the machine makes calls slower, never faster
                fault[++faults] = sprintf("%s %s %s: %.3f times the base, %.3f by arithmetic", p[1], p[2], isa[k], \
                                          best, arithmetic)
        }
    }
    if (count == 0) {
        print "bench-features: nothing was measured" > "/dev/stderr"
        exit 3
    }
    out(sprintf("\n%d of %d lines cost, by their fastest calls, over %g %% more than their arithmetic predicts.", \
                faults, count, limit))
    for (i = 1; i <= faults; i++)
        print "  " fault[i]
    for (i = 1; i <= losses; i++)
        print "bench-features: not measured: " lost[i] > "/dev/stderr"
    exit (losses > 0 ? 3 : faults > 0 ? 1 : 0)
}
