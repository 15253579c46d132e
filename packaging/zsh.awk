# SPDX-License-Identifier: MIT
# awk -f zsh.awk listing: completion for zsh, both programs in one file.

BEGIN { FS = "\t" }

# Text within the brackets and colons of an _arguments spec, which itself stands in single quotes.
function escaped(text)
{
    gsub(/\\/, "\\\\", text)
    gsub(/:/, "\\:", text)
    gsub(/\[/, "\\[", text)
    gsub(/\]/, "\\]", text)
    gsub(/'/, "'\\''", text)
    return text
}

function argument(name, text)
{
    if (text == "-")
        return ""
    if (name == "isa")
        return ":" escaped(text) ":_values -s , ISA " isas
    if (text == "FILE" || text == "PATH")
        return ":" escaped(text) ":_files"
    if (text == "DIR")
        return ":" escaped(text) ":_files -/"
    if (index(text, "|")) {
        gsub(/\|/, " ", text)
        return ":" name ":(" text ")"
    }
    return ":" escaped(text) ": "
}

NR == FNR { # the first time: the instruction sets alone
    if ($1 == "isas") {
        isas = $2
        gsub(/,/, " ", isas)
    }
    next
}
$1 == "usage" && $3 != "-" { commands[++command_count] = $3 }
$1 == "help" && !(($2, $3) in said) { said[$2, $3] = $4 }
$1 == "option" {
    help = $7 == "" ? "" : "[" escaped($7) "]"
    repeat = $6 == "KEY=VALUE" ? "*" : ""
    if ($4 != "-")
        lines[$2, $3] = lines[$2, $3] " \\\n        '" repeat "-" $4 help argument($5, $6) "'"
    lines[$2, $3] = lines[$2, $3] " \\\n        '" repeat "--" $5 help argument($5, $6) "'"
}

END {
    files = " \\\n        '*:file:_files'"
    print "#compdef attngen attnrun"
    print "# zsh completion for attngen and attnrun; made by attngen's Makefile from their help."
    print "_attngen_options()"
    print "{"
    print "    _arguments" lines["attngen", "-"] files
    print "}"
    print "_attnrun_commands()"
    print "{"
    print "    local -a commands=("
    for (i = 1; i <= command_count; i++)
        print "        '" commands[i] ":" escaped(said["attnrun", commands[i]]) "'"
    print "        'help:the options of a command'"
    print "    )"
    print "    _describe command commands"
    print "}"
    print "_attnrun_options()"
    print "{"
    print "    if (( CURRENT == 2 )); then"
    print "        _attnrun_commands"
    print "        return"
    print "    fi"
    print "    local command=$words[2]"
    print "    shift words"
    print "    (( CURRENT-- ))"
    print "    case $command in"
    print "    help) _attnrun_commands ;;"
    for (i = 1; i <= command_count; i++)
        print "    " commands[i] ") _arguments" lines["attnrun", commands[i]] files " ;;"
    print "    esac"
    print "}"
    print "case $service in"
    print "attngen) _attngen_options \"$@\" ;;"
    print "attnrun) _attnrun_options \"$@\" ;;"
    print "esac"
}
