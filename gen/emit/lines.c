/* SPDX-License-Identifier: MIT */
#include "emit/lines.h"

#include <ctype.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include <lauxlib.h>

enum { MOST_OPEN = 1024 };

struct scan {
    bool comment;             /* the line ends inside a comment */
    char open[MOST_OPEN];     /* brackets that are open */
    int depth;                /* how many */
    char last[3];             /* the last characters of code of the line */
};

static const char *find(const char *at, const char *end, const char *what)
{
    const char *found = at;
    while ((found = memchr(found, what[0], (size_t)(end - found))) && (found + 1 == end || found[1] != what[1]))
        found++;
    return found;
}

/* The end of the literal that a quote at `at` opens; `at` where none closes it. */
static const char *literal_end(const char *at, const char *end)
{
    for (const char *c = at + 1; c < end; c++) {
        if (*c == '\\')
            c++;
        else if (*c == *at)
            return c;
    }
    return at;
}

/* Reads a line: brackets, comments and the last characters of its code. */
static void scan_line(lua_State *lua, struct scan *scan, const char *at, const char *end, bool macro)
{
    memset(scan->last, 0, sizeof scan->last);
    if (scan->comment) {
        const char *close = find(at, end, "*/");
        at = close ? close + 2 : end;
        scan->comment = !close;
    }
    for (; at < end; at++) {
        if (*at == '\\' && at + 1 < end) {
            at++;
            continue;
        }
        if (*at == '"' || *at == '\'') {
            const char *close = literal_end(at, end);
            if (close > at) {
                at = close;
                continue;
            }
        } else if (*at == '/' && at + 1 < end && at[1] == '*') {
            const char *close = find(at + 2, end, "*/");
            scan->comment = !close;
            if (!close)
                return;
            at = close + 1;
            continue;
        } else if (!macro && memchr("([{", *at, 3) != NULL) {
            if (scan->depth == MOST_OPEN)
                luaL_error(lua, "more than %d brackets are open", MOST_OPEN);
            scan->open[scan->depth++] = *at;
        } else if (!macro && memchr(")]}", *at, 3) != NULL) {
            scan->depth -= scan->depth > 0;
        }
        memmove(scan->last, scan->last + 1, 2);
        scan->last[2] = *at;
    }
}

static bool goes_on(const struct scan *scan)
{
    const char *last = scan->last;
    const bool logical = last[0] == ' ' && last[1] && last[2] && strchr("&|", last[1]) && strchr("&|", last[2]);

    if (last[2] == ',')
        return scan->depth > 0 && scan->open[scan->depth - 1] == '(';
    return logical || (last[1] == ' ' && last[2] && strchr("?:=", last[2]));
}

static size_t columns(const char *at, size_t length)
{
    size_t count = 0;
    for (size_t i = 0; i < length; i++)
        count += ((unsigned char)at[i] & 0xC0) != 0x80; /* of UTF-8: every byte but the continuations */
    return count;
}

int lines_columns(lua_State *lua)
{
    size_t length;
    const char *at = luaL_checklstring(lua, 1, &length);
    lua_pushinteger(lua, (lua_Integer)columns(at, length));
    return 1;
}

/* How a line may be broken at the blank `at`: 0 best; negative: not */
static int break_at(const char *line, const char *at, const char *end)
{
    const ptrdiff_t before = at - line, after = end - at;
    if (before > 0 && memchr(",;", at[-1], 2) != NULL)
        return 0;
    if (before > 1 && memchr("&|", at[-2], 2) != NULL && memchr("&|", at[-1], 2) != NULL)
        return 0;
    const bool equal = after > 3 && at[2] == '=' && at[3] == ' ';
    if (after < 3 || memchr("?:+*/<=>-", at[1], 9) == NULL || (at[2] != ' ' && !equal))
        return -1;
    return at[2] == ' ' && memchr("?:", at[1], 2) != NULL ? 1 : 2;
}

int lines_place(lua_State *lua)
{
    size_t length;
    const char *const line = luaL_checklstring(lua, 1, &length), *const end = line + length;
    const lua_Integer fewest = luaL_checkinteger(lua, 2);
    const size_t most = (size_t)luaL_checkinteger(lua, 3);
    ptrdiff_t open[MOST_OPEN], inside = 0, best = 0;
    int depth = 0, least = INT_MAX;
    char quote = '\0';

    for (const char *at = line; at < end; at++) {
        if (quote != '\0' && *at == '\\') {
            at++;
        } else if (quote != '\0' || *at == '"' || *at == '\'') {
            quote = quote == '\0' ? *at : quote == *at ? '\0' : quote;
        } else if (memchr("([{", *at, 3) != NULL) {
            open[depth++ % MOST_OPEN] = at - line + 1;
        } else if (memchr(")]}", *at, 3) != NULL) {
            depth -= depth > 0;
        } else if (*at == ' ') {
            const int kind = break_at(line, at, end);
            if (columns(line, (size_t)(at - line)) > most)
                break;
            if (kind < 0 || at - line < fewest || 4 * depth + kind > least)
                continue;
            least = 4 * depth + kind;
            best = at - line;
            inside = depth > 0 ? open[(depth - 1) % MOST_OPEN] : 0;
        }
    }
    if (least == INT_MAX)
        return 0;
    lua_pushinteger(lua, best);
    if (inside > 0)
        lua_pushinteger(lua, inside);
    return inside > 0 ? 2 : 1;
}

int lines_of_code(lua_State *lua)
{
    size_t length;
    const char *at = luaL_checklstring(lua, 1, &length), *end = at + length;
    const size_t most = (size_t)luaL_checkinteger(lua, 2);
    char *line = lua_newuserdatauv(lua, length + 1, 0); /* the line that may still grow */
    size_t used = 0;
    lua_Integer count = 0;
    struct scan scan = {0};
    bool open = false;

    lua_newtable(lua);
    while (at <= end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *next = newline ? newline : end;
        const bool macro = (at < next && *at == '#') || (count > 0 && used > 0 && line[used - 1] == '\\');
        const char *text = at;
        const size_t before = columns(line, used);

        if (at == next && count > 1 && used == 0) {
            at = next + 1;
            continue;
        }
        if (open && !macro) {
            while (text < next && *text == ' ')
                text++;
            open = before > most || before + (size_t)(next - text) < most;
        }
        if (open && !macro) {
            line[used++] = ' ';
        } else {
            if (count > 0) {
                lua_pushlstring(lua, line, used);
                lua_rawseti(lua, -2, count);
            }
            count++;
            used = 0;
            text = at;
        }
        memcpy(line + used, text, (size_t)(next - text));
        used += (size_t)(next - text);
        scan_line(lua, &scan, at, next, macro);
        open = !macro && !scan.comment && goes_on(&scan);
        at = next + 1;
    }
    lua_pushlstring(lua, line, used);
    lua_rawseti(lua, -2, count);
    return 1;
}

int lines_joined(lua_State *lua)
{
    size_t length;
    const char *at = luaL_checklstring(lua, 1, &length), *const end = at + length;
    const size_t most = (size_t)luaL_checkinteger(lua, 2);
    size_t line = 0, indent = 0; /* bytes of the line that may still grow, and its blanks at the front */
    luaL_Buffer out;

    luaL_buffinitsize(lua, &out, length);
    for (const char *next; (next = memchr(at, '\n', (size_t)(end - at))) != NULL; at = next + 1) {
        const size_t blanks = strspn(at, " "), rest = (size_t)(next - at) - blanks;
        const bool joins = line > 0 && blanks == indent && line + 1 + rest <= most;
        if (line > 0)
            luaL_addchar(&out, joins ? ' ' : '\n');
        luaL_addlstring(&out, joins ? at + blanks : at, joins ? rest : blanks + rest);
        line = joins ? line + 1 + rest : blanks + rest;
        indent = blanks;
    }
    if (line > 0)
        luaL_addchar(&out, '\n');
    luaL_pushresult(&out);
    return 1;
}

/* The end of the line at `at`, which goes on behind a backslash */
static const char *line_end(const char *at, const char *end)
{
    do {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        at = newline ? newline + 1 : end;
    } while (at < end && at[-2] == '\\');
    return at;
}

int lines_blocks(lua_State *lua)
{
    size_t length;
    const char *at = luaL_checklstring(lua, 1, &length), *end = at + length;
    lua_Integer count = 0;

    lua_newtable(lua);
    while (at < end) {
        const char *const from = at;
        bool macros = true;
        for (; at < end && *at != '\n'; at = line_end(at, end))
            macros = macros && strncmp(at, "#d", 2) == 0;
        for (const char *line = from, *next; line < at; line = next) {
            next = macros ? line_end(line, at) : at;
            lua_pushlstring(lua, line, (size_t)(next - line));
            lua_rawseti(lua, -2, ++count);
        }
        at += at < end;
    }
    return 1;
}

int lines_words(lua_State *lua)
{
    size_t length;
    const char *at = luaL_checklstring(lua, 1, &length), *end = at + length;
    struct { const char *at; size_t length; } seen[1024] = {{0}}; /* words that were marked a moment ago */

    while (at < end) {
        const char *from = at;
        if (*at == '/' && at + 1 < end && at[1] == '*') {
            const char *close = find(at + 2, end, "*/");
            at = close ? close + 2 : at + 1;
        } else if (isalpha((unsigned char)*at) || *at == '_') {
            size_t hash = 0;
            for (; at < end && (isalnum((unsigned char)*at) || *at == '_'); at++)
                hash = 31 * hash + (unsigned char)*at;
            const size_t word = (size_t)(at - from), slot = hash % 1024;
            if (seen[slot].length == word && memcmp(seen[slot].at, from, word) == 0)
                continue;
            seen[slot].at = from;
            seen[slot].length = word;
            lua_pushlstring(lua, from, word);
            lua_pushboolean(lua, true);
            lua_rawset(lua, 2);
        } else {
            at++;
        }
    }
    return 0;
}
