# SPDX-License-Identifier: MIT
# The lines of standard input in an order that `seed` decides.
{ line[NR] = $0 }
END {
    srand(seed)
    for (i = NR; i > 1; i--) { j = int(rand() * i) + 1; t = line[i]; line[i] = line[j]; line[j] = t }
    for (i = 1; i <= NR; i++) print line[i]
}
