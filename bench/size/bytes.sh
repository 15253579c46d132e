#!/bin/sh
# SPDX-License-Identifier: MIT
# bytes.sh OBJECT: the bytes of code and constants of each instruction set in a compiled pair, and of what they share, by
# the names of its functions: "avx2 34659" a line, "shared 2546" last. Inlined functions count where they are inlined.
nm -S --defined-only -t d "$1" | awk '
    $3 ~ /^[tTrR]$/ { name = $4; sub(/\.(isra|part|constprop|cold|llvm|lto_priv).*/, "", name); n++; at[n] = name; bytes[n] = $2 }
    $4 ~ /^parts_[a-z0-9_]+$/ { isa[substr($4, 7)] = 1 }
    END {
        for (i = 1; i <= n; i++) {
            owner = "shared"
            for (name in isa) if (at[i] ~ "_" name "$") owner = name
            sum[owner] += bytes[i]
        }
        for (name in isa) print name, sum[name]
        print "shared", sum["shared"]
    }'
