/* SPDX-License-Identifier: MIT */
/* Scans of C text for wrap.lua and context.lua, in C for speed: texts have ten thousand lines. */
#ifndef ATTNGEN_LINES_H
#define ATTNGEN_LINES_H

#include <lua.h>

/* (text, most) → the array of its lines, at most one of several blank ones. A line of code that ends at an operator, or
 * in a comma between parentheses, and the next line become one if that has at most `most` columns, or if the first has
 * more already. */
int lines_of_code(lua_State *lua);

/* (text) → its columns, where it is UTF-8 */
int lines_columns(lua_State *lua);

/* (text) → the array of its blocks, which blank lines separate; #defines that stand together are a block each. */
int lines_blocks(lua_State *lua);

/* (text, set): set[word] = true for each identifier of the text outside comments. */
int lines_words(lua_State *lua);

#endif
