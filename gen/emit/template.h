/* SPDX-License-Identifier: MIT */
/* A template's text as Lua, for expand.lua, in C for speed: a layer's templates have half a million characters. */
#pragma once

#include <lua.h>

/* (name, text, close, careful) → Lua, and an array of the texts that it emits or names in errors. close(text, open,
 * place) → the index of the "}" that ends the expression of the "${" at `open`, where that is not the next "}", or for
 * all expressions if `careful`. */
int template_translate(lua_State *lua);

/* (checked) → put, cut, emitters: functions that make a text. put(text) adds to it. cut() is its length, cut(from)
 * takes off what is behind `from` and returns it. emitters(texts) → what a translated template calls: _put(i) adds
 * text i, _value(i, v) the text of v, which checked(v, text i, 3) gives for all but strings and integers. */
int template_text(lua_State *lua);
