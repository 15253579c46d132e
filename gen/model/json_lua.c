/* SPDX-License-Identifier: MIT */
#include "model/json_lua.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <lauxlib.h>

static bool push_value(lua_State *lua, struct json_lua *reader, int depth);

/* Pushes what `reader->text` is, and lets go of it. */
static void push_text(lua_State *lua, struct json_lua *reader)
{
    lua_pushstring(lua, reader->text);
    free(reader->text);
    reader->text = NULL;
}

static bool push_number(lua_State *lua, struct json_lua *reader)
{
    reader->text = json_number(&reader->json);
    if (reader->text == NULL)
        return false;
    const bool whole = strpbrk(reader->text, ".eE") == NULL; /* beyond 64 bits strtoll() says the limit */
    const long long integer = whole ? strtoll(reader->text, NULL, 10) : 0;
    const double number = strtod(reader->text, NULL);
    if (!isfinite(number))
        return json_fail(&reader->json, "a number that no double holds");
    if (whole && integer != LLONG_MAX && integer != LLONG_MIN)
        lua_pushinteger(lua, integer);
    else
        lua_pushnumber(lua, number);
    free(reader->text);
    reader->text = NULL;
    return true;
}

static bool push_array(lua_State *lua, struct json_lua *reader, int depth)
{
    lua_newtable(lua);
    for (size_t i = 0; json_item(&reader->json, "[]", i); i++) {
        if (!push_value(lua, reader, depth))
            return false;
        lua_rawseti(lua, -2, (lua_Integer)i + 1);
    }
    return json_good(&reader->json);
}

static bool push_object(lua_State *lua, struct json_lua *reader, int depth)
{
    lua_newtable(lua);
    for (size_t i = 0; json_item(&reader->json, "{}", i); i++) {
        if ((reader->text = json_text(&reader->json)) == NULL)
            return false;
        push_text(lua, reader);
        lua_pushvalue(lua, -1);
        if (lua_rawget(lua, -3) != LUA_TNIL)
            return json_fail(&reader->json, "a key occurs twice in an object");
        lua_pop(lua, 1);
        if (!json_expect(&reader->json, ':') || !push_value(lua, reader, depth))
            return false;
        lua_rawset(lua, -3);
    }
    return json_good(&reader->json);
}

static bool push_value(lua_State *lua, struct json_lua *reader, int depth)
{
    struct json *json = &reader->json;
    luaL_checkstack(lua, 8, NULL);
    const bool object = json_next_is(json, '{');
    if (object || json_next_is(json, '['))
        return depth == JSON_DEPTH ? json_fail(json, "objects and arrays are nested more than 64 deep")
               : object ? push_object(lua, reader, depth + 1) : push_array(lua, reader, depth + 1);
    if (json_next_is(json, '"')) {
        if ((reader->text = json_text(json)) == NULL)
            return false;
        push_text(lua, reader);
        return true;
    }
    if (json_accept_word(json, "null")) {
        json_push_null(lua);
        return true;
    }
    if (json_accept_word(json, "Infinity")) { /* no JSON, but Python's; as transformers 5 writes it */
        lua_newtable(lua);
        lua_pushstring(lua, "Infinity");
        lua_setfield(lua, -2, "__float__");
        return true;
    }
    const bool yes = json_accept_word(json, "true");
    if (yes || json_accept_word(json, "false")) {
        lua_pushboolean(lua, yes);
        return true;
    }
    return json_is_end(json) ? json_fail(json, "the text ends before the value does") : push_number(lua, reader);
}

void json_push_null(lua_State *lua)
{
    lua_pushlightuserdata(lua, NULL);
}

bool json_push(lua_State *lua, struct json_lua *reader)
{
    const int top = lua_gettop(lua);
    if (push_value(lua, reader, 0) &&
        (json_is_end(&reader->json) || json_fail(&reader->json, "something follows the value")))
        return true;
    free(reader->text);
    reader->text = NULL;
    lua_settop(lua, top);
    return false;
}
