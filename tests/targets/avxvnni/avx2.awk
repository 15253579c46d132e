# SPDX-License-Identifier: MIT
# vpdpbusd and vpdpwssd of AT&T's syntax, "b, a, c", by instructions of AVX2: c += sums of four products of unsigned bytes
# of a and signed ones of b, or of two of words. Registers are put by below the red zone and come back.
function free_register(    n) {
    for (n = next_free; index("," a "," b "," c ",", ",%ymm" n ","); n++)
        ;
    next_free = n + 1
    return "%ymm" n
}
!/^[ \t]*\{vex\}[ \t]*vpdp/ { print; next }
{
    op = $2
    operands = $0
    sub(/^[ \t]*\{vex\}[ \t]*[a-z]+[ \t]+/, "", operands)
    gsub(/[ \t]|#.*/, "", operands)
    if (!match(operands, /,%ymm[0-9]+,%ymm[0-9]+$/) || (op != "vpdpbusd" && op != "vpdpwssd")) {
        print "cannot be emulated: " $0 >"/dev/stderr"
        exit 1
    }
    b = substr(operands, 1, RSTART - 1)
    split(substr(operands, RSTART + 1), of, ",")
    a = of[1]; c = of[2]
    next_free = 0
    x = free_register(); y = free_register(); z = free_register()
    text = "vmovdqu X, -160(%rsp); vmovdqu Y, -192(%rsp); vmovdqu Z, -224(%rsp); vmovdqu B, Z;"
    if (op == "vpdpbusd")
        text = text "vpsllw $8, Z, X; vpsraw $8, X, X; vpsllw $8, A, Y; vpsrlw $8, Y, Y; vpmaddwd Y, X, X;" \
            "vpsraw $8, Z, Z; vpsrlw $8, A, Y; vpmaddwd Y, Z, Z; vpaddd Z, X, X;"
    else
        text = text "vpmaddwd Z, A, X;"
    text = text "vpaddd X, C, C; vmovdqu -160(%rsp), X; vmovdqu -192(%rsp), Y; vmovdqu -224(%rsp), Z"
    gsub("A", a, text); gsub("C", c, text); gsub("X", x, text); gsub("Y", y, text); gsub("Z", z, text)
    gsub("B", b, text) # the last one: a place in memory may have such letters
    print "\t" text
}
