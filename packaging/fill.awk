# SPDX-License-Identifier: MIT
# awk -f fill.awk -v version=… -v bindir=… -v cmakedir=… -v pcdir=… FILE.in: the @words@ of a packaged file.
#
# The way to the programs is written relative to the file, so that the whole of an installation may be moved.

# The way from one absolute folder to another: relative("/usr/lib/cmake", "/usr/bin") = "../../bin".
function relative(from, to,    a, b, i, n, m, way)
{
    gsub(/\/+/, "/", from); sub(/\/$/, "", from)
    gsub(/\/+/, "/", to); sub(/\/$/, "", to)
    n = split(from, a, "/")
    m = split(to, b, "/")
    for (i = 1; i <= n && i <= m && a[i] == b[i]; i++)
        ;
    way = "."
    for (m = i; m <= n; m++)
        way = way "/.."
    for (n = split(to, b, "/"); i <= n; i++)
        way = way "/" b[i]
    sub(/^\.\//, "", way)
    return way
}

function put(word, value,    at)
{
    while (at = index($0, word))
        $0 = substr($0, 1, at - 1) value substr($0, at + length(word))
}

BEGIN { split(version, number, ".") }
{
    put("@version@", version)
    put("@major@", number[1])
    put("@minor@", number[2])
    put("@from_cmake@", relative(cmakedir, bindir))
    put("@from_pc@", relative(pcdir, bindir))
    print
}
