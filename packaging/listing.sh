#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# listing.sh ATTNGEN ATTNRUN: the command lines of both programs as a table, read from their own help.
#
# Man pages and completions are made of it, so that an option is described once, in the program. Columns, with tabs:
#   usage    PROGRAM  COMMAND  TEXT                       COMMAND is - for attngen
#   help     PROGRAM  COMMAND  TEXT                       a line of the prose before the options, in their order
#   option   PROGRAM  COMMAND  SHORT  LONG  ARGUMENT  TEXT     SHORT and ARGUMENT are - where there is none
#   isas     LIST
# Left out on purpose: how any of them looks; see man.awk, bash.awk, fish.awk, zsh.awk.
set -eu -o pipefail
attngen=$1 attnrun=$2

# rows PROGRAM COMMAND: the help of one command on standard input → its rows
rows() {
    awk -v program="$1" -v command="$2" '
        function flush_option() {
            if (long != "")
                printf "option\t%s\t%s\t%s\t%s\t%s\t%s\n", program, command, short, long, argument, text
            long = ""
        }
        NR == 1 {
            sub(/^usage: [a-z]+ */, "")
            if (command != "-") sub(/^[a-z]+ */, "")
            usage = $0
            next
        }
        usage != "" && NF { sub(/^ +/, " "); usage = usage $0; next } # the rest of a long one
        usage != "" { printf "usage\t%s\t%s\t%s\n", program, command, usage; usage = "" }
        /^  (-[A-Za-z], )?--[a-z]/ {
            flush_option()
            options = 1
            sub(/^  /, "")
            # "--help, --version": two options without a word
            while (match($0, /^--[a-z-]+, --/)) {
                printf "option\t%s\t%s\t-\t%s\t-\t\n", program, command, substr($0, 3, RLENGTH - 6)
                sub(/^--[a-z-]+, /, "")
            }
            short = "-"
            if (match($0, /^-[A-Za-z], /)) {
                short = substr($0, 2, 1)
                $0 = substr($0, 5)
            }
            match($0, /^--[a-z0-9-]+/)
            long = substr($0, 3, RLENGTH - 2)
            $0 = substr($0, RLENGTH + 1)
            argument = "-"
            if (match($0, /^ [^ ]+/)) {     # one space: the argument; two or more: the text
                argument = substr($0, 2, RLENGTH - 1)
                $0 = substr($0, RLENGTH + 1)
            }
            sub(/^ +/, "")
            text = $0
            next
        }
        /^          / && long != "" { sub(/^ +/, ""); text = text " " $0; next }
        { flush_option() }
        NF && !options { printf "help\t%s\t%s\t%s\n", program, command, $0 }
        END { flush_option() }'
}

"$attngen" --help | rows attngen -
commands=$("$attnrun" help | sed -n 's/^  attnrun \([a-z]*\).*/\1/p' | grep -vx help)
for command in $commands; do
    "$attnrun" help "$command" | rows attnrun "$command"
done
"$attngen" --help | awk '/^ +--isa / && match($0, /scalar[a-z0-9_,]*/) { print "isas\t" substr($0, RSTART, RLENGTH) }'
