/* SPDX-License-Identifier: MIT */
/* See template.h. */
#include "emit/template.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include <lauxlib.h>

enum { NAME = 1, TEXT, CLOSE, CAREFUL, TEXTS, ARGUMENTS = CAREFUL }; /* on the stack */

/* The "}" that ends an expression whose brackets are in pairs, outside strings; NULL: they are not, or it has long
 * brackets. */
static const char *simple_end(const char *at, const char *end)
{
    int depth = 0;
    for (char quote = '\0'; at < end && *at != '\n'; at++) {
        if (quote != '\0' && *at == '\\')
            at += at + 1 < end && at[1] != '\n';
        else if (quote != '\0')
            quote = *at == quote ? '\0' : quote;
        else if (*at == '"' || *at == '\'')
            quote = *at;
        else if (*at == '}' && depth == 0)
            return at;
        else if (memchr(")]}", *at, 3) != NULL)
            depth--;
        else if (memchr("([{", *at, 3) != NULL)
            depth++;
        if (depth < 0 || (*at == '[' && at + 1 < end && at[1] == '['))
            return NULL;
    }
    return NULL;
}

/* The "}" that closes the "${" at `open`, of line `line` */
static const char *expression_end(lua_State *lua, const char *text, const char *open, const char *end, lua_Integer line)
{
    const char *close = lua_toboolean(lua, CAREFUL) ? NULL : simple_end(open + 2, end);
    if (close == NULL) {
        lua_pushvalue(lua, CLOSE);
        lua_pushvalue(lua, TEXT);
        lua_pushinteger(lua, open - text + 1);
        lua_pushfstring(lua, "%s:%I", lua_tostring(lua, NAME), (LUAI_UACINT)line);
        lua_call(lua, 3, 1);
        close = text + lua_tointeger(lua, -1) - 1;
        lua_pop(lua, 1);
    }
    return close;
}

/* Adds the text to TEXTS, and `before`, its number there and `after` to the code. */
static void put(lua_State *lua, luaL_Buffer *code, const char *before, const char *at, const char *end,
                const char *after)
{
    char number[32];
    const lua_Integer count = (lua_Integer)lua_rawlen(lua, TEXTS) + 1;
    lua_pushlstring(lua, at, (size_t)(end - at));
    lua_rawseti(lua, TEXTS, count);
    snprintf(number, sizeof number, "_texts[%lld]", (long long)count);
    luaL_addstring(code, before);
    luaL_addstring(code, number);
    luaL_addstring(code, after);
}

/* What stands as it is: one line of code for each of its lines. Returns how many end in it. */
static lua_Integer put_text(lua_State *lua, luaL_Buffer *code, const char *at, const char *end)
{
    lua_Integer lines = 0;
    if (at < end)
        put(lua, code, "_put(", at, end, ")");
    for (; (at = memchr(at, '\n', (size_t)(end - at))) != NULL; at++, lines++)
        luaL_addchar(code, '\n');
    return lines;
}

int template_translate(lua_State *lua)
{
    size_t length;
    const char *const text = luaL_checklstring(lua, TEXT, &length), *const end = text + length;
    const char *from = text, *at = text; /* what is not yet in the code; where the next "$" is looked for */
    lua_Integer line = 1;
    luaL_Buffer code;

    lua_settop(lua, ARGUMENTS);
    lua_newtable(lua);
    luaL_buffinit(lua, &code);
    luaL_addstring(&code, "local _put, _value, _texts, _ENV = ... ");
    while ((at = memchr(at, '$', (size_t)(end - at))) != NULL) {
        const char *const next = at + 1;
        if (next < end && *next == '{') {
            line += put_text(lua, &code, from, at);
            const char *const close = expression_end(lua, text, at, end, line);
            luaL_addstring(&code, "_value((");
            luaL_addlstring(&code, at + 2, (size_t)(close - at - 2));
            put(lua, &code, "), ", at + 2, close, ")");
            from = at = close + 1;
        } else if (at == text || at[-1] == '\n') {
            line += put_text(lua, &code, from, at);
            if (next < end && !isspace((unsigned char)*next)) {
                lua_pushfstring(lua, "%s:%I: a line that begins with '$' is Lua and needs a blank after the '$'",
                                lua_tostring(lua, NAME), (LUAI_UACINT)line);
                return lua_error(lua);
            }
            const char *const newline = memchr(at, '\n', (size_t)(end - at));
            from = newline != NULL ? newline + 1 : end;
            luaL_addlstring(&code, next, (size_t)(from - next));
            at = from;
            line++;
        } else {
            at++;
        }
    }
    put_text(lua, &code, from, end);
    if (luaL_buffaddr(&code)[luaL_bufflen(&code) - 1] == '\n')
        luaL_buffsub(&code, 1); /* so that an error at the end is one of the last line */
    luaL_pushresult(&code);
    lua_pushvalue(lua, TEXTS);
    return 2;
}
