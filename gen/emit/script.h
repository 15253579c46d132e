/* SPDX-License-Identifier: MIT */
/* What attngen asks of Lua: a state whose memory has a limit, and the Lua files that attngen carries.
 *
 * Left out on purpose: what the scripts do; emit.c runs templates, import.c the families of models.
 */
#pragma once

#include <stddef.h>

#include <lua.h>

struct script_memory {
    size_t used; /* bytes that Lua holds */
};

/* A lua_Alloc; its user data is a struct script_memory. A script that never stops taking ends at 512 MiB. */
void *script_allocate(void *memory, void *old, size_t old_size, size_t size);

/* Opens the libraries that read and write nothing and run nothing else. */
void script_open(lua_State *lua);

/* Leaves the chunk of an embedded Lua file on the stack; a Lua error where there is none. */
void script_load(lua_State *lua, const char *name);
