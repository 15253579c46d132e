# SPDX-License-Identifier: MIT
# awk -f fish.awk listing: completion for fish, attngen and attnrun in one file for each (-v program=NAME).

BEGIN {
    FS = "\t"
    print "# fish completion for " program "; made by attngen's Makefile from its help."
}

function quoted(text)
{
    gsub(/\\/, "\\\\", text)
    gsub(/'/, "\\'", text)
    return "'" text "'"
}

# What may follow an option: any path, or the words of a choice.
function argument(name, text)
{
    if (text == "-")
        return ""
    if (text == "FILE" || text == "PATH" || text == "DIR")
        return " -r -F"
    gsub(/\|/, " ", text)
    return name == "isa" ? " -x -a '(__fish_append , @isas@)'" : text ~ / / ? " -x -a " quoted(text) : " -x"
}

$1 == "isas" {
    isas = $2
    gsub(/,/, " ", isas)
}
$2 != program { next }
$1 == "usage" && $3 != "-" { commands = commands " " $3 }
$1 == "help" && !(($3) in said) && $3 != "-" {
    said[$3]
    lines[++count] = "complete -c " program " -n __fish_use_subcommand -f -a " $3 " -d " quoted($4)
}
$1 == "option" {
    lines[++count] = "complete -c " program \
        ($3 == "-" ? "" : " -n " quoted("__fish_seen_subcommand_from " $3)) \
        ($4 == "-" ? "" : " -s " $4) " -l " $5 argument($5, $6) ($7 == "" ? "" : " -d " quoted($7))
}

END {
    if (commands != "") {
        print "complete -c " program " -n __fish_use_subcommand -f -a help -d 'the options of a command'"
        print "complete -c " program " -n __fish_use_subcommand -l version"
        print "complete -c " program " -n '__fish_seen_subcommand_from help' -f -a " quoted(substr(commands, 2))
    }
    for (i = 1; i <= count; i++) {
        gsub(/@isas@/, isas, lines[i])
        print lines[i]
    }
}
