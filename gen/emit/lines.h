/* SPDX-License-Identifier: MIT */
/* Scans of C text for wrap.lua and context.lua, in C for speed: texts have ten thousand lines. */
#pragma once

#include <lua.h>

/* (text, most) → the array of its lines, at most one of several blank ones. A line of code that ends at an operator, or
 * in a comma between parentheses, and the next line become one if that has at most `most` columns, or if the first has
 * more already. */
int lines_of_code(lua_State *lua);

/* (text, most) → the text without blank lines; lines of one indentation that follow each other are joined by blanks, up
 * to `most` bytes. */
int lines_joined(lua_State *lua);

/* (text) → its columns, where it is UTF-8 */
int lines_columns(lua_State *lua);

/* (line of code, fewest, most) → where it is best broken, from `fewest` bytes to `most` columns: the bytes before the
 * blank there, and the innermost bracket that is open, counted from 1, or nil. Best is where brackets nest least, there
 * behind a comma, before `?` or `:`, before another operator; the last of equals. Nothing if there is no such place. */
int lines_place(lua_State *lua);

/* (text) → the array of its blocks, which blank lines separate; #defines that stand together are a block each. */
int lines_blocks(lua_State *lua);

/* (text, set): set[word] = true for each identifier of the text outside comments. */
int lines_words(lua_State *lua);
