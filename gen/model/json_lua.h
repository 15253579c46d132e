/* SPDX-License-Identifier: MIT */
/* A JSON text as a Lua value: objects and arrays become tables, null a light userdata of its own, so that a key with
 * null is not one that is absent.
 *
 * Left out on purpose: telling an empty object from an empty array; what keys mean.
 */
#pragma once

#include <stdbool.h>

#include <lua.h>

#include "base/json.h"

#define JSON_DEPTH 64 /* of objects and arrays within each other; deeper ones are refused */

struct json_lua {
    struct json json;
    char *text; /* of the reader, so that a Lua error does not lose it; to be freed after each use */
};

/* Pushes the value that the whole text is. False, and nothing pushed, where it is none or a key occurs twice: json.why
 * says why. Without memory a Lua error. */
bool json_push(lua_State *lua, struct json_lua *reader);

/* What null becomes. */
void json_push_null(lua_State *lua);
