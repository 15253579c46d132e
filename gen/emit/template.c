/* SPDX-License-Identifier: MIT */
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

/* Adds the text to TEXTS, and a call with its number there to the code, as far as `form` says it. */
static void put(lua_State *lua, luaL_Buffer *code, const char *form, const char *at, const char *end)
{
    char call[32];
    const lua_Integer count = (lua_Integer)lua_rawlen(lua, TEXTS) + 1;
    lua_pushlstring(lua, at, (size_t)(end - at));
    lua_rawseti(lua, TEXTS, count);
    snprintf(call, sizeof call, form, (long long)count);
    luaL_addstring(code, call);
}

/* What stands as it is: one line of code for each of its lines. Returns how many end in it. */
static lua_Integer put_text(lua_State *lua, luaL_Buffer *code, const char *at, const char *end)
{
    lua_Integer lines = 0;
    if (at < end)
        put(lua, code, "_put(%lld)", at, end);
    for (; (at = memchr(at, '\n', (size_t)(end - at))) != NULL; at++, lines++)
        luaL_addchar(code, '\n');
    return lines;
}

/* The text that templates make, a userdata; its bytes are in another one, which the registry holds. */
struct made {
    char *at;
    size_t used, size;
};
enum { MADE = lua_upvalueindex(1), MADE_TEXTS = lua_upvalueindex(2), MADE_CHECKED = lua_upvalueindex(3) };

/* Adds the string on top of the stack to the text. */
static int add(lua_State *lua)
{
    struct made *const made = lua_touserdata(lua, MADE);
    size_t length;
    const char *const text = luaL_checklstring(lua, -1, &length);
    if (made->size - made->used < length) {
        const size_t size = 2 * (made->size + length);
        char *const grown = lua_newuserdatauv(lua, size, 0);
        if (made->used > 0)
            memcpy(grown, made->at, made->used);
        lua_rawsetp(lua, LUA_REGISTRYINDEX, made);
        made->at = grown;
        made->size = size;
    }
    memcpy(made->at + made->used, text, length);
    made->used += length;
    return 0;
}

/* () → the bytes of the text; (from) → what the text has behind there, which is taken off. */
static int cut(lua_State *lua)
{
    struct made *const made = lua_touserdata(lua, MADE);
    const lua_Integer from = luaL_optinteger(lua, 1, -1);
    if (from < 0) {
        lua_pushinteger(lua, (lua_Integer)made->used);
    } else {
        lua_pushlstring(lua, made->at + from, made->used - (size_t)from);
        made->used = (size_t)from;
    }
    return 1;
}

/* (i): adds text i of a template. */
static int add_text(lua_State *lua)
{
    lua_rawgeti(lua, MADE_TEXTS, lua_tointeger(lua, 1));
    return add(lua);
}

/* (i, value): adds the value of the expression that is text i of a template. */
static int add_value(lua_State *lua)
{
    lua_settop(lua, 2);
    if (lua_type(lua, 2) != LUA_TSTRING && !lua_isinteger(lua, 2)) {
        lua_pushvalue(lua, MADE_CHECKED);
        lua_rotate(lua, 2, 1);
        lua_rawgeti(lua, MADE_TEXTS, lua_tointeger(lua, 1));
        lua_pushinteger(lua, 3); /* levels up to the template */
        lua_call(lua, 3, 1);
    }
    return add(lua);
}

/* (texts) → add_text, add_value */
static int emitters(lua_State *lua)
{
    for (int value = 0; value < 2; value++) {
        lua_pushvalue(lua, MADE);
        lua_pushvalue(lua, 1);
        lua_pushvalue(lua, MADE_TEXTS); /* here `checked` */
        lua_pushcclosure(lua, value ? add_value : add_text, 3);
    }
    return 2;
}

int template_text(lua_State *lua)
{
    static const lua_CFunction all[] = {add, cut, emitters};
    struct made *const made = lua_newuserdatauv(lua, sizeof *made, 0);
    *made = (struct made){.at = (char *)made}; /* none yet, at an address that is not NULL */
    for (int i = 0; i < 3; i++) {
        lua_pushvalue(lua, 2);
        lua_pushvalue(lua, 1);
        lua_pushcclosure(lua, all[i], 2);
    }
    return 3;
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
    luaL_buffinitsize(lua, &code, 2 * length);
    luaL_addstring(&code, "local _put, _value, _ENV = ... ");
    while ((at = memchr(at, '$', (size_t)(end - at))) != NULL) {
        const char *const next = at + 1;
        if (next < end && *next == '{') {
            line += put_text(lua, &code, from, at);
            const char *const close = expression_end(lua, text, at, end, line);
            put(lua, &code, "_value(%lld, (", at + 2, close);
            luaL_addlstring(&code, at + 2, (size_t)(close - at - 2));
            luaL_addstring(&code, "))");
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
