# SPDX-License-Identifier: MIT
# The q-quantile of the numbers in `text`, linear between neighbours.
function quantile(text, q,    n, i, j, t, v, at, low) {
    n = split(text, v, " ")
    for (i = 2; i <= n; i++) {
        t = v[i] + 0
        for (j = i - 1; j >= 1 && v[j] + 0 > t; j--)
            v[j + 1] = v[j]
        v[j + 1] = t
    }
    at = 1 + q * (n - 1)
    low = int(at)
    return low >= n ? v[n] : v[low] + (at - low) * (v[low + 1] - v[low])
}
