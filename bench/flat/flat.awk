# SPDX-License-Identifier: MIT
# Medians, quartiles and the fastest call of each point beside its expected share: a table, the CSV, and the points that are
# too low; then each point's fastest call over that of the next larger one, and the points that take longer. Needs
# quantile.awk. Files: points ("DIMENSION VALUE"), expected ("… ISA SHARE BOUND"), measured ("… ISA MICROSECONDS
# SHARE FASTEST PEAK GFLOPS", see layer.awk).

FNR == 1 { file++ }
file == 1 { point[++points] = $1 " " $2; next }
file == 2 {
    key = $1 " " $2 " " $3
    expected[key] = $4
    bound[key] = $5 ($6 != "" ? " " $6 : "")
    if (!($3 in seen)) { seen[$3] = 1; isa[++isas] = $3 }
    next
}
{
    key = $1 " " $2 " " $3
    if (!($6 > 0 && $7 > 0 && $8 > 0)) {
        print "bench-flat: no figures in: " $0 > "/dev/stderr"
        bad = 1
        exit
    }
    us[key] = us[key] " " $4
    share[key] = share[key] " " $5
    if (!(key in fastest) || $6 < fastest[key]) fastest[key] = $6
    if ($7 > peak[key]) peak[key] = $7
    work[key] = $4 * $8 # the same in every round
    measures[$3] = 1
}

END {
    if (bad)
        exit 3
    print "dimension,value,isa,measured,quartile_1,quartile_3,expected,held_by,us,fastest" > csv
    print "us, measured, quartiles: over the rounds; fastest: of any call; differs: fastest minus expected"
    low = 0
    for (i = 1; i <= points; i++) {
        split(point[i], p, " ")
        if (p[1] != before) {
            printf "\n%-9s %6s  %-7s %9s %9s %15s %8s %9s %7s  %s\n", "dimension", "value", "isa", "us", \
                "measured", "quartiles", "fastest", "expected", "differs", "held by"
            before = p[1]
        }
        for (k = 1; k <= isas; k++) {
            key = point[i] " " isa[k]
            if (!(key in share)) {
                if (isa[k] in measures) # a set that this machine lacks is passed over
                    lost[++losses] = point[i] " " isa[k]
                continue
            }
            time = quantile(us[key], 0.5)
            median = quantile(share[key], 0.5)
            q1 = quantile(share[key], 0.25)
            q3 = quantile(share[key], 0.75)
            best = work[key] / fastest[key] / peak[key]
            differs = 100 * (best - expected[key])
            line = sprintf("%-9s %6s  %-7s %9.2f %8.1f%% %6.1f%% %6.1f%% %7.1f%% %8.1f%% %+7.1f  %s", p[1], p[2], isa[k], \
                           time, 100 * median, 100 * q1, 100 * q3, 100 * best, 100 * expected[key], differs, bound[key])
            print line
            printf "%s,%s,%s,%.4f,%.4f,%.4f,%.4f,%s,%.4g,%.4f\n", p[1], p[2], isa[k], median, q1, q3, expected[key], \
                bound[key], time, best > csv
            measured++
            if (differs < -limit) # who shares the machine makes calls slower, never faster
                fault[++low] = line
        }
    }
    if (measured == 0) {
        print "bench-flat: nothing was measured" > "/dev/stderr"
        exit 3
    }
    printf "\n%d of %d points lie, even in their fastest call, more than %g points below the expected share\n", \
        low, measured, limit
    for (i = 1; i <= low; i++)
        print fault[i]
    printf "\nfastest call over that of the next larger value\n%-9s %6s %6s", "dimension", "value", "next"
    for (k = 1; k <= isas; k++)
        printf isa[k] in measures ? "  %-7s" : "", isa[k]
    print ""
    slow = 0
    for (i = 1; i < points; i++) {
        split(point[i], p, " ")
        split(point[i + 1], next_point, " ")
        if (p[1] != next_point[1])
            continue
        line = sprintf("%-9s %6s %6s", p[1], p[2], next_point[2])
        for (k = 1; k <= isas; k++) {
            a = point[i] " " isa[k]
            b = point[i + 1] " " isa[k]
            ratio = a in fastest && b in fastest ? fastest[a] / fastest[b] : 0
            line = line (isa[k] in measures ? sprintf("  %-7.3f", ratio) : "")
            if (ratio > 1 + slower / 100)
                longer[++slow] = sprintf("%s %s: %s takes %.3f of the time of %s", isa[k], p[1], p[2], ratio, \
                                         next_point[2])
        }
        print line
    }
    printf "\n%d points take more than %g %% longer than the next larger one\n", slow, slower
    for (i = 1; i <= slow; i++)
        print longer[i]
    for (i = 1; i <= losses; i++)
        print "bench-flat: not measured: " lost[i] > "/dev/stderr"
    exit (losses > 0 ? 3 : low + slow > 0 ? 1 : 0)
}
