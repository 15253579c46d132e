#!/bin/sh
# SPDX-License-Identifier: MIT
# A layer without a build system: generate, then compile every C file there is. CC=… for another target.
set -e
cd "$(dirname "$0")"
${ATTNGEN:-attngen} -o out ../average.layer
cp ../main.c out
cd out
${CC:-cc} -std=c11 ${CFLAGS:--O2 -Wall -Wextra} -o main *.c
