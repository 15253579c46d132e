# SPDX-License-Identifier: MIT
# awk -f section.awk docs/spec.md docs/block.md docs/types.md: Markdown pages as mdoc, for a man page.
#
# Knows what these pages have: paragraphs, `code`, links, lists of one level, indented blocks, subsections, tables. A row
# of a table becomes an item: its first column the name, the second the text, the others behind their headings.
# Left out on purpose: all else of Markdown.

function words(text)
{
    gsub(/\\\|/, "\002", text)
    gsub(/\\/, "\\e", text)
    gsub(/\002/, "|", text)
    text = links(text)
    gsub(/-/, "\\-", text)
    while (match(text, /`[^`]*`/))
        text = substr(text, 1, RSTART - 1) "\\fB" substr(text, RSTART + 1, RLENGTH - 2) "\\fR" \
               substr(text, RSTART + RLENGTH)
    return text ~ /^[.']/ ? "\\&" text : text
}

# The same with each sentence on a line of its own, as mdoc wants prose.
function prose(text)
{
    text = words(text)
    gsub(/\. /, ".\n", text)
    return text
}

# [text](address) → text
function links(text,    from, link)
{
    while (match(text, /\[[^][]*\]\([^()]*\)/)) {
        from = RSTART
        link = substr(text, from, RLENGTH)
        text = substr(text, 1, from - 1) substr(link, 2, index(link, "](") - 2) substr(text, from + length(link))
    }
    return text
}

function close_block(to)
{
    if (block == "table" || block == "list") print ".El"
    if (block == "literal") print ".Ed"
    block = to
    blank = 0
}

function row(text,    cells, count, i, line)
{
    gsub(/\\\|/, "\001", text)
    count = split(text, cells, /\|/)
    for (i = 1; i <= count; i++) {
        gsub(/^ +| +$/, "", cells[i])
        gsub(/\001/, "|", cells[i])
    }
    if (block != "table") {
        close_block("table")
        print ".Bl -tag -width Ds"
        for (i = 1; i <= count; i++)
            heads[i] = cells[i]
        return
    }
    if (cells[2] ~ /^-+$/)
        return
    print ".It " words(cells[2])
    line = (heads[3] ~ / / ? heads[3] ": " : "") cells[3]
    print prose(line)
    for (i = 4; i < count; i++)
        if (cells[i] != "")
            print "(" words((cells[i] == "required" ? "" : heads[i] (heads[i] ~ / / ? ": " : " ")) cells[i]) ")"
}

/^# / && NR == 1 { next }
/^#/ { close_block(""); sub(/^#+ */, ""); print ".Ss " words($0); block = "head"; next }
/^$/   { blank = 1; next }
/^\|/  { row($0); next }
/^    / {
    if (block != "literal") {
        close_block("literal")
        print ".Bd -literal -offset indent"
    } else if (blank)
        print ""
    blank = 0
    print words(substr($0, 5))
    next
}
/^- / {
    if (block != "list") {
        close_block("list")
        print ".Bl -bullet"
    }
    print ".It"
    print prose(substr($0, 3))
    next
}
/^  / && block == "list" { sub(/^ +/, ""); print prose($0); next }
{
    if (block != "text" || blank) {
        was = block
        close_block("text")
        if (was != "" && was != "head")
            print ".Pp"
    }
    print prose($0)
}
END { close_block("") }
