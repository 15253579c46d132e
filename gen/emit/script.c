/* SPDX-License-Identifier: MIT */
#include "emit/script.h"

#include <stdlib.h>

#include <lauxlib.h>
#include <lualib.h>

#include "base/embedded.h"

#define MEMORY_LIMIT ((size_t)512 << 20) /* stops a runaway script before it swaps */

void *script_allocate(void *user, void *old, size_t old_size, size_t size)
{
    struct script_memory *memory = user;
    void *block = NULL;

    if (!old)
        old_size = 0; /* then it holds the kind of object */
    if (size == 0) {
        free(old);
        memory->used -= old_size;
        return NULL;
    }
    if (size <= old_size || memory->used - old_size + size <= MEMORY_LIMIT)
        block = realloc(old, size);
    if (block)
        memory->used += size - old_size;
    return block;
}

void script_open(lua_State *lua)
{
    static const char *const shut[] = {"dofile", "loadfile", "print", "collectgarbage"};
    luaL_requiref(lua, LUA_GNAME, luaopen_base, 1);
    luaL_requiref(lua, LUA_STRLIBNAME, luaopen_string, 1);
    luaL_requiref(lua, LUA_TABLIBNAME, luaopen_table, 1);
    luaL_requiref(lua, LUA_MATHLIBNAME, luaopen_math, 1);
    lua_pop(lua, 4);
    for (size_t i = 0; i < sizeof shut / sizeof *shut; i++) {
        lua_pushnil(lua);
        lua_setglobal(lua, shut[i]);
    }
}

void script_load(lua_State *lua, const char *name)
{
    const struct embedded_file *file = embedded_find(embedded_files, embedded_files_count, name);

    if (!file)
        luaL_error(lua, "%s is not embedded", name);
    else if (luaL_loadbufferx(lua, (const char *)file->data, file->size, lua_pushfstring(lua, "@%s", name), "t"))
        lua_error(lua);
    else
        lua_remove(lua, -2); /* the chunk's name */
}
