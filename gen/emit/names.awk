# SPDX-License-Identifier: MIT
# The structs of headers as tables of their fields, for context.c, which sets what templates see: a template spells a
# field as C does. To run: awk -f names.awk HEADER…, each header after those whose structs it has.
#
# Of enum NAME: words_NAME[], each enumerator in lower case without what all begin with; that of NONE is "".
# Of struct NAME: names_NAME[] (struct named of context.c), of
#   - numbers, conditions, texts (NULL: ""), enumerations (their words; enum layout_name: where the layout lies)
#   - structs, also those that a pointer leads to; an anonymous union's fields stand among those of its struct
#   - arrays, as lists counted from 1: of all elements, or of `thing_count` elements for `things`; by words where the
#     length is the last name of an enumeration. A struct of `count` and `at` alone is such a list itself.
# Left out: pointers to other types; fields whose comment says "not for templates"; struct layer and struct plan, of
# which context.c sets what templates see.

{
    if (FNR == 1)
        read_header()
    text = text $0 "\n"
}
END { read_header() }

function read_header(    word) {
    tokens = 0
    # "!" stands for a comment that hides what is ahead of it
    while (match(text, /\/\*([^*]|\*+[^*\/])*\*+\/|#[^\n]*|[A-Za-z_][A-Za-z_0-9]*|[0-9]+|[^ \n]/)) {
        at = RSTART + RLENGTH
        word = substr(text, RSTART, RLENGTH)
        text = substr(text, at)
        if (word ~ /^\/\*/ ? word ~ /[Nn]ot[ \n*]+for[ \n*]+templates/ : word !~ /^#/)
            token[++tokens] = word ~ /^\/\*/ ? "!" : word
    }
    text = ""
    for (at = 1; at <= tokens; at++)
        if (token[at] == "enum" && (token[at + 1] == "{" || token[at + 2] == "{"))
            read_enum(token[at + 1] == "{" ? "" : token[at + 1])
        else if (token[at] == "struct" && token[at + 2] == "{" && token[at + 1] !~ /^(layer|plan)$/) {
            word = token[at + 1]
            at += 2
            read_struct(word, "", "names_" word)
            known[word]
        } else if (token[at] == "{")
            at = closing(at)
}

function closing(from,    depth) {
    do
        depth += (token[from] == "{") - (token[from] == "}")
    while (depth > 0 && from++ < tokens)
    return from
}

# What both begin with, up to an underscore
function shared(a, b) {
    while (index(b, a) != 1)
        a = substr(a, 1, length(a) - 1)
    sub(/[^_]*$/, "", a)
    return a
}

function read_enum(name,    end, count, list, i, prefix, word) {
    while (token[at] != "{")
        at++
    end = closing(at)
    for (; at < end; at++)
        if (token[at] ~ /^[{,]$/ && token[at + 1] ~ /^[A-Z]/ && token[at + 2] != "(")
            list[++count] = token[at + 1]
    prefix = list[1]
    for (i = 2; i <= count; i++)
        if (i < count || shared(prefix, list[i]) != "")
            prefix = shared(prefix, list[i])
    if (prefix == "")
        return
    name = name == "" ? tolower(list[count]) : name
    by_words[list[count]] = name
    printf "static const char *const words_%s[] = {\n", name
    for (i = 1; i <= count; i++)
        if (index(list[i], prefix) == 1) {
            word = tolower(substr(list[i], length(prefix) + 1))
            printf "    [%s] = \"%s\",\n", list[i], word == "none" ? "" : word
        }
    print "};"
}

# The table of the fields from the brace at `at` on, which is left at the brace that closes; `path`: from struct `outer`
function read_struct(outer, path, table,    end, count, first, name, kind, extent, i, type, fields, of, pointer) {
    end = closing(at)
    while (++at < end) {
        if (token[at] == "!") {
            for (i = first; i <= count; i++)
                kind[i] = ""
            continue
        }
        first = count + 1
        fields = pointer = ""
        if (token[at] ~ /^(struct|union)$/ && token[at + 1] == "{" && token[closing(at + 1) + 1] == ";") {
            i = closing(at + 1)
            if (token[i + 2] == "!")
                at = i + 2
            else
                token[i] = token[i + 1] = token[++at] = ""
            continue
        }
        if (token[at] == "")
            continue
        if (token[at] == "const")
            at++
        type = token[at]
        if (type == "struct" && token[at + 1] == "{") {
            i = closing(++at)
            fields = table "_" token[i + 1]
            read_struct(outer, path token[i + 1] (token[i + 2] == "[" ? "[0]." : "."), fields)
            type = "struct"
        } else if (type == "struct" || type == "enum")
            of = token[++at]
        if (type == "struct" && fields == "")
            fields = of in known ? "names_" of : "-"
        while (token[++at] != ";") {
            if (token[at] == "*")
                pointer = 1
            else if (token[at] == "[") {
                for (extent[count] = ""; token[++at] != "]";)
                    extent[count] = extent[count] token[at]
            } else if (token[at] == ",")
                pointer = ""
            else {
                name[++count] = token[at]
                extent[count] = ""
                kind[count] = of_type(type, of, fields, pointer)
            }
        }
    }
    listed = count == 2 && name[1] == "count" && name[2] == "at"
    printf "static const struct named %s[] = {\n", table
    for (i = 1 + listed; i <= count; i++)
        if (kind[i] != "")
            print_field(outer, path, name[i], kind[i], extent[i], listed ? "count" : counter(name, count, name[i]), listed)
    print "    {.name = NULL},\n};"
}

function of_type(type, of, fields, pointer) {
    if (type == "struct")
        return fields == "-" ? "" : (pointer ? "POINTER" : "STRUCT") ", .fields = " fields
    if (type == "enum")
        return of == "layout_name" ? "LAYOUT" : "WORD, .words = words_" of
    if (pointer)
        return type == "char" ? "TEXT" : ""
    return type in integers ? integers[type] : ""
}

# The field that counts the elements of the array `of`; "": none does
function counter(name, count, of,    i) {
    for (i = 1; i <= count; i++)
        if (name[i] == substr(of, 1, length(of) - 1) "_count")
            return name[i]
}

# Bytes from the first of the struct that has the field
function offset(outer, path, name) {
    return sprintf("offsetof(struct %s, %s%s)", outer, path, name) \
        (path != "" ? sprintf(" - offsetof(struct %s, %s)", outer, substr(path, 1, length(path) - 1)) : "")
}

function print_field(outer, path, name, kind, extent, count, listed,    of) {
    of = "((struct " outer " *)0)->" path
    printf "    {.name = \"%s\", .at = %s, .kind = NAMED_%s", \
        listed ? "" : name, \
        offset(outer, path, name), kind
    if (extent != "") {
        printf ",\n     .size = sizeof *%s%s, .extent = sizeof %s%s / sizeof *%s%s", of, name, of, name, of, name
        if (count != "")
            printf ",\n     .count_at = %s, .count_size = sizeof %s%s", offset(outer, path, count), of, count
        else if (extent in by_words)
            printf ", .keys = words_%s", by_words[extent]
    }
    print "},"
}

BEGIN {
    integers["int64_t"] = "INT64"
    integers["int"] = "INT"
    integers["unsigned"] = integers["uint32_t"] = "UNSIGNED"
    integers["size_t"] = "SIZE"
    integers["double"] = "DOUBLE"
    integers["bool"] = "BOOL"
}
