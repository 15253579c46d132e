# SPDX-License-Identifier: MIT
# awk -f man.awk -v version=… -v section=… listing page.in: a man page (mdoc) with what the listing knows.
#
# A line of the page that is one of these becomes the text of the program's own help; every other line stays:
#   @usage PROGRAM@     the command line behind the name, or, for a program with commands, one for each
#   @help PROGRAM@      what it says of itself
#   @options PROGRAM@   the options as a list
#   @commands PROGRAM@  a subsection for each command: its usage, its help, its options
#   @section@           the file `section`, which section.awk makes
# @isas@ and @version@ stand for the instruction sets and the version, anywhere.
# Left out on purpose: prose; it is the page's.

BEGIN { FS = "\t" }

# Text as a mdoc line: nothing in it is a macro or an escape; a minus is one that can be copied.
function plain(text)
{
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    gsub(/…/, "...", text)
    if (text ~ /^[.']/)
        text = "\\&" text
    return text
}

# Prose: mdoc wants each sentence on a line of its own.
function sentences(text)
{
    text = plain(text)
    gsub(/\. /, ".\n", text)
    return text
}

function options(program, command,    i, short)
{
    if (!counts[program, command])
        return
    print ".Bl -tag -width Ds"
    for (i = 1; i <= counts[program, command]; i++) {
        split(rows[program, command, i], row, "\t")
        short = row[4] == "-" ? "" : "Fl " row[4] " , "
        printf ".It %sFl \\-%s%s\n", short, plain(row[5]), row[6] == "-" ? "" : " Ar " plain(row[6])
        if (row[7] != "")
            print sentences(row[7])
    }
    print ".El"
}

NR == FNR {
    if ($1 == "isas") {
        isas = $2
        gsub(/,/, ", ", isas)
    } else if ($1 == "usage") {
        usage[$2, $3] = $4
        if ($3 != "-")
            commands[++command_count] = $3
    } else if ($1 == "help")
        help[$2, $3] = help[$2, $3] sentences($4) "\n"
    else if ($1 == "option")
        rows[$2, $3, ++counts[$2, $3]] = $0
    next
}

/^@usage / {
    split($0, word, /[ @]/)
    if ((word[3], "-") in usage)
        printf ".Nm %s\n%s\n", word[3], plain(usage[word[3], "-"])
    for (i = 1; i <= command_count && !((word[3], "-") in usage); i++)
        printf ".Nm %s\n%s %s\n", word[3], commands[i], plain(usage[word[3], commands[i]])
    next
}
/^@help / {
    split($0, word, /[ @]/)
    printf "%s", help[word[3], "-"]
    next
}
/^@options / {
    split($0, word, /[ @]/)
    options(word[3], "-")
    next
}
/^@commands / {
    split($0, word, /[ @]/)
    for (i = 1; i <= command_count; i++) {
        printf ".Ss %s %s %s\n", word[3], commands[i], plain(usage[word[3], commands[i]])
        printf "%s", help[word[3], commands[i]]
        options(word[3], commands[i])
    }
    next
}
/^@section@$/ {
    while ((getline line <section) > 0)
        print line
    next
}
{
    gsub(/@isas@/, isas)
    gsub(/@version@/, version)
    print
}
