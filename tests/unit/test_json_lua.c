/* SPDX-License-Identifier: MIT */
/* JSON as Lua values: what each kind becomes, how deep it may be, what is refused and where.
 *
 * Left out on purpose: texts and numbers themselves (test_json.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lauxlib.h>
#include <lua.h>

#include "model/json_lua.h"

static lua_State *lua;

static int open_lua(void **state)
{
    lua = luaL_newstate();
    return lua == NULL;
}

static int close_lua(void **state)
{
    lua_close(lua);
    return 0;
}

/* Pushes the value of exactly these bytes, a copy of which a sanitizer watches. */
static bool push(const char *text, size_t length, struct json_lua *reader, size_t *at)
{
    char *copy = malloc(length > 0 ? length : 1);
    assert_non_null(copy);
    memcpy(copy, text, length);
    *reader = (struct json_lua){.json = json_begin(copy, length)};
    const int top = lua_gettop(lua);
    const bool good = json_push(lua, reader);
    assert_int_equal(lua_gettop(lua), top + good);
    *at = (size_t)(reader->json.at - copy);
    free(reader->text);
    free(copy);
    return good;
}

static void takes(const char *text)
{
    struct json_lua reader;
    size_t at;
    if (!push(text, strlen(text), &reader, &at))
        fail_msg("%s: %s", text, reader.json.why);
}

static void refuses(const char *text, size_t length, const char *why, size_t where)
{
    struct json_lua reader;
    size_t at;
    assert_false(push(text, length, &reader, &at));
    assert_string_equal(reader.json.why, why);
    assert_int_equal(at, where);
}

static void kinds(void **state)
{
    takes(" {\"a\": [1, 2.5, null], \"b\": {\"c\": \"d\\n\"}, \"e\": true, \"f\": false, \"g\": null, \"\": -0} ");
    const int all = lua_gettop(lua);
    assert_int_equal(lua_getfield(lua, all, "a"), LUA_TTABLE);
    assert_int_equal(lua_rawlen(lua, -1), 3);
    lua_rawgeti(lua, -1, 1);
    assert_true(lua_isinteger(lua, -1) && lua_tointeger(lua, -1) == 1);
    lua_rawgeti(lua, -2, 2);
    assert_true(!lua_isinteger(lua, -1) && lua_tonumber(lua, -1) == 2.5);
    assert_int_equal(lua_rawgeti(lua, -3, 3), LUA_TLIGHTUSERDATA);
    json_push_null(lua);
    assert_true(lua_rawequal(lua, -1, -2));
    lua_getfield(lua, all, "b");
    lua_getfield(lua, -1, "c");
    assert_string_equal(lua_tostring(lua, -1), "d\n");
    assert_int_equal(lua_getfield(lua, all, "e"), LUA_TBOOLEAN);
    assert_true(lua_toboolean(lua, -1));
    assert_int_equal(lua_getfield(lua, all, "f"), LUA_TBOOLEAN);
    assert_false(lua_toboolean(lua, -1));
    assert_int_equal(lua_getfield(lua, all, "g"), LUA_TLIGHTUSERDATA);
    assert_int_equal(lua_getfield(lua, all, ""), LUA_TNUMBER);
    lua_settop(lua, 0);
}

static void numbers(void **state)
{
    static const struct { const char *text; double number; bool integer; } cases[] = {
        {"9223372036854775806", 9223372036854775806.0, true}, {"9223372036854775808", 9223372036854775808.0, false},
        {"-9223372036854775807", -9223372036854775807.0, true}, {"1e2", 100, false}, {"1.0", 1, false},
        {"1e308", 1e308, false}, {"1e-400", 0, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        takes(cases[i].text);
        assert_int_equal(lua_isinteger(lua, -1), cases[i].integer);
        assert_true(lua_tonumber(lua, -1) == cases[i].number);
        lua_settop(lua, 0);
    }
    refuses("1e309", 5, "a number that no double holds", 5);
    refuses("[-1e309]", 8, "a number that no double holds", 7);
}

static void faults(void **state)
{
    static const char ends[] = "the text ends before the value does";
    refuses("", 0, ends, 0);
    refuses("  ", 2, ends, 2);
    refuses("[1,", 3, ends, 3);
    refuses("{\"a\":", 5, ends, 5);
    refuses("[1 2]", 5, "']' expected", 3);
    refuses("{\"a\" 1}", 7, "':' expected", 5);
    refuses("{1:2}", 5, "'\"' expected", 1);
    refuses("{\"a\":1,}", 8, "'\"' expected", 7);
    refuses("[1,]", 4, "a number expected", 3);
    refuses("nul", 3, "a number expected", 0);
    refuses("nulll", 5, "something follows the value", 4);
    refuses("true false", 10, "something follows the value", 5);
    refuses("1\0", 2, "something follows the value", 1);
    refuses("{\"a\":1,\"b\":2,\"a\":3}", 19, "a key occurs twice in an object", 16);
    refuses("{\"a\":null,\"\\u0061\":null}", 24, "a key occurs twice in an object", 18);
    takes("[{\"a\":1},{\"a\":{\"a\":1}}]"); /* of each object anew */
    lua_settop(lua, 0);
}

/* Arrays and objects in turn, as deep as may be, and one deeper. */
static void depth(void **state)
{
    char text[6 * (JSON_DEPTH + 1) + 1] = "";
    struct json_lua reader;
    size_t at;
    for (int deep = JSON_DEPTH; deep <= JSON_DEPTH + 1; deep++) {
        text[0] = '\0';
        for (int i = 0; i < deep; i++)
            strcat(text, i % 2 == 0 ? "[" : "{\"a\":");
        if (deep % 2 != 0)
            strcat(text, "1");
        else
            text[strlen(text) - 5] = '\0', strcat(text, "{");
        for (int i = deep; i-- > 0;)
            strcat(text, i % 2 == 0 ? "]" : "}");
        assert_int_equal(push(text, strlen(text), &reader, &at), deep == JSON_DEPTH);
        if (deep > JSON_DEPTH)
            assert_string_equal(reader.json.why, "objects and arrays are nested more than 64 deep");
        lua_settop(lua, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds), cmocka_unit_test(numbers), cmocka_unit_test(faults), cmocka_unit_test(depth),
    };
    return cmocka_run_group_tests(tests, open_lua, close_lua);
}
