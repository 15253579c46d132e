/* SPDX-License-Identifier: MIT */
/* See emit.h. The Lua stack of the state is: 1 the message handler, 2 expand(), 3 the context, then the tables that
 * are open. Everything that can raise a Lua error runs under lua_pcall().
 */
#include "emit/emit.h"

#include <stdlib.h>
#include <string.h>

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include "base/diag.h"
#include "base/embedded.h"
#include "base/file.h"
#include "base/memory.h"
#include "emit/lines.h"
#include "emit/script.h"
#include "emit/template.h"
#include "spec/spec.h"

enum { GC_PAUSE = 1000 }; /* percent of live memory at which garbage is collected */
enum { AT_HANDLER = 1, AT_EXPAND = 2, AT_CONTEXT = 3 };

struct emit {
    lua_State *lua;
    struct script_memory memory;
    const char *folder; /* of the templates; NULL: embedded */
    char *text;         /* the template read last */
    char **paths;       /* the template files read */
    size_t paths_count;
    char *failure;    /* of the first setter that failed */
    bool environment; /* the machine failed, not the template */
};

/* ---- the Lua state ---- */

static void note_path(struct emit *emit, const char *path)
{
    size_t at = 0;

    while (at < emit->paths_count && strcmp(emit->paths[at], path) < 0)
        at++;
    if (at < emit->paths_count && strcmp(emit->paths[at], path) == 0)
        return;
    emit->paths = memory_grow(emit->paths, emit->paths_count + 1, sizeof *emit->paths);
    memmove(emit->paths + at + 1, emit->paths + at, (emit->paths_count - at) * sizeof *emit->paths);
    emit->paths[at] = text_copy(path);
    emit->paths_count++;
}

/* read(name) for expand.lua, from the folder: text, or nil and a message. */
static int read_from_folder(lua_State *lua)
{
    struct emit *emit = lua_touserdata(lua, lua_upvalueindex(1));
    const char *path, *name = luaL_checkstring(lua, 1);
    struct diag diag = {0};
    size_t length;

    path = lua_pushfstring(lua, "%s/%s", emit->folder, name);
    free(emit->text); /* held by emit, so that a lack of memory in Lua does not lose it */
    emit->text = file_read(path, WHOLE_TEMPLATE, &length, &diag);
    if (!emit->text) {
        emit->environment = true;
        lua_pushnil(lua);
        lua_pushfstring(lua, "the template %s %s", path, diag_first(&diag));
        diag_free(&diag);
        return 2;
    }
    note_path(emit, path);
    lua_pushlstring(lua, emit->text, length);
    return 1;
}

static int read_embedded(lua_State *lua)
{
    const char *name = luaL_checkstring(lua, 1);
    const struct embedded_file *file = embedded_find(embedded_files, embedded_files_count, name);

    if (!file) {
        lua_pushnil(lua);
        lua_pushfstring(lua, "there is no template '%s'", name);
        return 2;
    }
    lua_pushlstring(lua, (const char *)file->data, file->size);
    return 1;
}

/* (text) → its fingerprint as a C constant: distinguishes texts, no protection. */
static int fingerprint(lua_State *lua)
{
    char text[17];
    spec_fingerprint(luaL_checkstring(lua, 1), text);
    lua_pushfstring(lua, "0x%su", text);
    return 1;
}

/* Runs the embedded file that is named: most layers need none of them. */
static int run_late(lua_State *lua)
{
    script_load(lua, lua_tostring(lua, lua_upvalueindex(1)));
    lua_insert(lua, 1);
    lua_call(lua, lua_gettop(lua) - 1, LUA_MULTRET);
    return lua_gettop(lua);
}

/* Returns the message handler, expand() and the empty context. */
static int set_up(lua_State *lua)
{
    struct emit *emit = lua_touserdata(lua, 1);

    script_open(lua);
    luaL_requiref(lua, LUA_DBLIBNAME, luaopen_debug, 0); /* for the places of errors, and no more of it */
    lua_newtable(lua);
    lua_getfield(lua, -2, "getinfo");
    lua_setfield(lua, -2, "getinfo");
    lua_setglobal(lua, LUA_DBLIBNAME);
    lua_pop(lua, 1);
    lua_newtable(lua);
    const int context = lua_gettop(lua);
    script_load(lua, "emit/expand.lua");
    lua_pushvalue(lua, context);
    script_load(lua, "emit/context.lua");
    lua_pushcfunction(lua, lines_columns);
    lua_pushcfunction(lua, lines_blocks);
    lua_call(lua, 2, 1);
    lua_pushcfunction(lua, lines_words);
    lua_setfield(lua, -2, "mark_words");
    lua_pushcfunction(lua, fingerprint);
    lua_setfield(lua, -2, "fingerprint");
    static const char *const late[][2] = {{"read_layers", "model/layers.lua"}, {"read_parts", "model/parts.lua"},
                                          {"read_model", "model/model.lua"}};
    for (size_t i = 0; i < sizeof late / sizeof *late; i++) {
        lua_pushstring(lua, late[i][1]);
        lua_pushcclosure(lua, run_late, 1);
        lua_setfield(lua, -2, late[i][0]);
    }
    lua_pushlightuserdata(lua, emit);
    lua_pushcclosure(lua, emit->folder ? read_from_folder : read_embedded, 1);
    lua_pushfstring(lua, "%s/", emit->folder ? emit->folder : "templates");
    script_load(lua, "emit/wrap.lua");
    lua_pushcfunction(lua, lines_of_code);
    lua_pushcfunction(lua, lines_columns);
    lua_pushcfunction(lua, lines_place);
    lua_call(lua, 3, 1);
    lua_pushcfunction(lua, template_translate);
    lua_pushcfunction(lua, lines_joined);
    lua_pushcfunction(lua, template_text);
    lua_call(lua, 8, 2); /* expand.lua(context, helpers, read, folder, wrap, …) → expand, explain */
    lua_insert(lua, -2);
    lua_pushvalue(lua, context);
    return 3;
}

struct emit *emit_open(const char *templates, struct diag *diag)
{
    struct emit *emit = memory_get(1, sizeof *emit);

    emit->folder = templates;
    emit->lua = lua_newstate(script_allocate, &emit->memory);
    if (emit->lua) {
        lua_gc(emit->lua, LUA_GCINC, GC_PAUSE, 0, 0);
        lua_pushcfunction(emit->lua, set_up);
        lua_pushlightuserdata(emit->lua, emit);
        if (lua_pcall(emit->lua, 1, 3, 0) == LUA_OK)
            return emit;
    }
    diag_environment(diag, NULL, "cannot start Lua: %s", emit->lua ? lua_tostring(emit->lua, -1) : "no memory");
    emit_close(emit);
    return NULL;
}

void emit_close(struct emit *emit)
{
    if (!emit)
        return;
    if (emit->lua)
        lua_close(emit->lua);
    for (size_t i = 0; i < emit->paths_count; i++)
        free(emit->paths[i]);
    free(emit->paths);
    free(emit->text);
    free(emit->failure);
    free(emit);
}

/* ---- the context ---- */

struct field {
    const char *name; /* NULL: the next element */
    int kind;         /* a Lua type */
    bool is_integer, boolean;
    int64_t integer;
    double number;
    const char *string;
};

static void push_value(lua_State *lua, const struct field *field)
{
    switch (field->kind) {
    case LUA_TBOOLEAN:
        lua_pushboolean(lua, field->boolean);
        break;
    case LUA_TSTRING:
        lua_pushstring(lua, field->string);
        break;
    case LUA_TNUMBER:
        if (field->is_integer)
            lua_pushinteger(lua, field->integer);
        else
            lua_pushnumber(lua, field->number);
        break;
    default:
        lua_newtable(lua);
    }
}

/* (table, field) → the value that was put into the table. */
static int set_field(lua_State *lua)
{
    const struct field *field = lua_touserdata(lua, 2);

    if (field->name && lua_getfield(lua, 1, field->name) != LUA_TNIL)
        return luaL_error(lua, "the context sets '%s' twice", field->name);
    push_value(lua, field);
    lua_pushvalue(lua, -1);
    if (field->name)
        lua_setfield(lua, 1, field->name);
    else
        lua_rawseti(lua, 1, (lua_Integer)lua_rawlen(lua, 1) + 1);
    return 1;
}

static void fail(struct emit *emit, bool environment, const char *message)
{
    if (emit->failure)
        return;
    emit->failure = text_copy(message ? message : "unknown");
    emit->environment = environment;
}

static void set(struct emit *emit, struct field field)
{
    lua_State *lua = emit->lua;
    int status = LUA_ERRMEM;

    if (emit->failure || emit->environment)
        return;
    if (lua_checkstack(lua, 8)) {
        lua_pushcfunction(lua, set_field);
        lua_pushvalue(lua, -2);
        lua_pushlightuserdata(lua, &field);
        status = lua_pcall(lua, 2, 1, 0);
        if (status != LUA_OK)
            fail(emit, status == LUA_ERRMEM, lua_tostring(lua, -1));
        if (status != LUA_OK || field.kind != LUA_TTABLE)
            lua_pop(lua, 1);
    } else {
        fail(emit, true, "no memory for the context");
    }
}

void emit_set_integer(struct emit *emit, const char *name, int64_t value)
{
    set(emit, (struct field){.name = name, .kind = LUA_TNUMBER, .is_integer = true, .integer = value});
}

void emit_set_number(struct emit *emit, const char *name, double value)
{
    set(emit, (struct field){.name = name, .kind = LUA_TNUMBER, .number = value});
}

void emit_set_string(struct emit *emit, const char *name, const char *value)
{
    set(emit, (struct field){.name = name, .kind = LUA_TSTRING, .string = value});
}

void emit_set_boolean(struct emit *emit, const char *name, bool value)
{
    set(emit, (struct field){.name = name, .kind = LUA_TBOOLEAN, .boolean = value});
}

void emit_set_integers(struct emit *emit, const struct emitted *fields)
{
    for (; fields->name != NULL; fields++)
        emit_set_integer(emit, fields->name, fields->value);
}

void emit_set_booleans(struct emit *emit, const struct emitted *fields)
{
    for (; fields->name != NULL; fields++)
        emit_set_boolean(emit, fields->name, fields->value);
}

void emit_begin_table(struct emit *emit, const char *name)
{
    set(emit, (struct field){.name = name, .kind = LUA_TTABLE});
}

void emit_begin_item(struct emit *emit)
{
    set(emit, (struct field){.kind = LUA_TTABLE});
}

void emit_end(struct emit *emit)
{
    if (emit->failure || emit->environment)
        return;
    if (lua_gettop(emit->lua) == AT_CONTEXT)
        fail(emit, false, "the context closes a table that is not open");
    else
        lua_pop(emit->lua, 1);
}

/* ---- expanding ---- */

struct outline {
    const char *template_name;
    size_t plan; /* 0: none */
};

static int call_expand(lua_State *lua)
{
    const struct outline *outline = lua_touserdata(lua, 2);
    lua_settop(lua, 1);
    lua_pushstring(lua, outline->template_name);
    if (outline->plan > 0)
        lua_pushinteger(lua, (lua_Integer)outline->plan);
    lua_call(lua, lua_gettop(lua) - 1, 1);
    return 1;
}

/* Reports the handler's "place\0message", or what Lua itself says when there was no memory to call the handler. */
static void report(const struct emit *emit, int status, const char *name, struct diag *diag)
{
    size_t length = 0;
    const char *text = lua_tolstring(emit->lua, -1, &length);
    const char *zero = text ? memchr(text, 0, length) : NULL;
    const char *place = zero && zero > text ? text : name;
    const char *message = zero ? zero + 1 : text ? text : "unknown error";

    if (emit->environment || status == LUA_ERRMEM)
        diag_environment(diag, place, "%s", message);
    else
        diag_error(diag, place, "%s", message);
}

static char *copy_result(struct emit *emit, size_t *length)
{
    const char *text = lua_tolstring(emit->lua, -1, length);
    return memcpy(memory_get(*length + 1, 1), text, *length + 1);
}

char *emit_expand(struct emit *emit, const char *template_name, size_t plan, size_t *length, struct diag *diag)
{
    struct outline outline = {template_name, plan};
    lua_State *lua = emit->lua;
    char *text = NULL;
    int status;

    if (!emit->failure && lua_gettop(lua) != AT_CONTEXT)
        fail(emit, false, "the context leaves a table open");
    if (emit->failure || emit->environment || !lua_checkstack(lua, 8)) {
        (emit->environment ? diag_environment : diag_error)(diag, template_name, "%s",
                                                            emit->failure ? emit->failure : "no memory");
        return NULL;
    }
    lua_pushcfunction(lua, call_expand);
    lua_pushvalue(lua, AT_EXPAND);
    lua_pushlightuserdata(lua, &outline);
    status = lua_pcall(lua, 2, 1, AT_HANDLER);
    if (status == LUA_OK)
        text = copy_result(emit, length);
    else
        report(emit, status, template_name, diag);
    lua_settop(lua, AT_CONTEXT);
    return text;
}

const char *const *emit_files_read(const struct emit *emit, size_t *count)
{
    *count = emit->paths_count;
    return (const char *const *)emit->paths;
}
