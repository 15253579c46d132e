# SPDX-License-Identifier: MIT
# awk -f bash.awk listing: completion for bash, from 3.2 on and without the bash-completion package.
#
# Where the word is no command, option, choice or instruction set, readline completes it as a path.

BEGIN { FS = "\t" }

$1 == "isas" {
    isas = $2
    gsub(/,/, " ", isas)
}
$1 == "usage" && $3 != "-" { commands = commands " " $3 }
$1 == "usage" { places[++count] = $2 SUBSEP $3 }
$1 == "option" {
    options[$2, $3] = options[$2, $3] ($4 == "-" ? "" : " -" $4) " --" $5
    if ($6 ~ /\|/ && !(($5, $6) in seen)) {
        seen[$5, $6]
        choices = $6
        gsub(/\|/, " ", choices)
        cases = cases "    --" $5 ") words='" choices "' ;;\n"
    }
}

END {
    print "# bash completion for attngen and attnrun; made by attngen's Makefile from their help."
    print "_attngen()"
    print "{"
    print "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} key words=' '"
    print "    COMPREPLY=()"
    print "    key=${COMP_WORDS[0]##*/}"
    print "    [ \"$key\" = attnrun ] && key=\"attnrun ${COMP_WORDS[1]}\""
    print "    case $before in"
    print "    --isa)"
    print "        # the last name of a list that commas join"
    print "        local list="
    print "        case $word in *,*) list=${word%,*}, ;; esac"
    print "        COMPREPLY=($(compgen -P \"$list\" -W '" isas "' -- \"${word##*,}\"))"
    print "        return ;;"
    printf "%s", cases
    print "    *)"
    print "        if [ \"$COMP_CWORD\" -eq 1 ] && [ \"${key%% *}\" = attnrun ]; then"
    print "            words='" substr(commands, 2) " help --help --version'"
    print "        elif [ \"$key\" = 'attnrun help' ]; then"
    print "            words='" substr(commands, 2) "'"
    print "        elif [ \"${word#-}\" != \"$word\" ]; then"
    print "            case $key in"
    for (i = 1; i <= count; i++) {
        split(places[i], part, SUBSEP)
        print "            '" part[1] (part[2] == "-" ? "" : " " part[2]) "')"
        print "                words='" substr(options[places[i]], 2) "' ;;"
    }
    print "            esac"
    print "        fi ;;"
    print "    esac"
    print "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))"
    print "}"
    print "complete -o bashdefault -o default -F _attngen attngen attnrun"
}
