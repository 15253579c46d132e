/* SPDX-License-Identifier: MIT */
/* See import.h. Everything that can raise a Lua error runs under lua_pcall(); what a script leaves to be freed is held
 * by the importer.
 */
#include "model/import.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <lauxlib.h>
#include <lua.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/name.h"
#include "base/options.h"
#include "base/tensors.h"
#include "emit/script.h"
#include "model/json_lua.h"
#include "plan/plan.h"
#include "spec/layer.h"

struct importer {
    const struct import_request *request;
    struct diag *diag;
    struct script_memory memory;
    struct json_lua reader;
    struct tensors tensors; /* of the file that tensors() reads */
    char *path, *text;      /* of the file of the folder that was read last */
    struct layer *layer;    /* of the spec that is looked at */
    struct imported *imported;
};

/* ---- what Lua may call: each has the importer as its upvalue ---- */

static struct importer *importer_of(lua_State *lua) { return lua_touserdata(lua, lua_upvalueindex(1)); }

/* run(file, arguments…) → what the chunk of this Lua file returns */
static int run_file(lua_State *lua)
{
    script_load(lua, luaL_checkstring(lua, 1));
    lua_replace(lua, 1);
    lua_call(lua, lua_gettop(lua) - 1, LUA_MULTRET);
    return lua_gettop(lua);
}

/* wrong(place, text): an error */
static int note_error(lua_State *lua)
{
    diag_error(importer_of(lua)->diag, luaL_checkstring(lua, 1), "%s", luaL_checkstring(lua, 2));
    return 0;
}

/* A list of numbers with a name: {name = "w_q", 384, 384} */
static void push_shape(lua_State *lua, const char *name, const int64_t *shape, int rank)
{
    lua_createtable(lua, rank, 1);
    lua_pushstring(lua, name);
    lua_setfield(lua, -2, "name");
    for (int i = 0; i < rank; i++) {
        lua_pushinteger(lua, shape[i]);
        lua_rawseti(lua, -2, i + 1);
    }
}

/* spec(file, text) → the tensors that a layer of this spec is packed from, with their shapes as they lie on disk, and
 * its bytes of cache; nil, and errors in diag, for a spec that attngen would refuse. */
static int read_spec(lua_State *lua)
{
    struct importer *importer = importer_of(lua);
    const char *file = luaL_checkstring(lua, 1), *text = luaL_checkstring(lua, 2);
    layer_free(importer->layer);
    importer->layer = layer_read_text(file, text, NULL, 0, importer->diag);
    if (importer->layer == NULL)
        return 0;
    plan_refuse_isas(importer->layer, importer->request->isas, importer->diag);
    lua_newtable(lua);
    for (enum layer_tensor tensor = 0; tensor < TENSOR_COUNT; tensor++) {
        int64_t shape[4];
        if (!layer_has_tensor(importer->layer, tensor) || !tensor_is_packed(layer_tensor_row(tensor)->kind))
            continue;
        push_shape(lua, layer_tensor_called(importer->layer, tensor), shape,
                   layer_weight_shape(importer->layer, tensor, shape));
        lua_pushboolean(lua, layer_tensor_row(tensor)->kind == TENSOR_WEIGHT);
        lua_setfield(lua, -2, "matrix");
        lua_rawseti(lua, -2, (lua_Integer)lua_rawlen(lua, -2) + 1);
    }
    lua_pushinteger(lua, importer->layer->cache_len * layer_cached_bytes(importer->layer));
    return 2;
}

/* ---- the model's folder; a name is of a file in it ---- */

/* FOLDER/NAME of the first argument, which the importer holds */
static const char *path_of(lua_State *lua)
{
    struct importer *importer = importer_of(lua);
    const char *folder = importer->request->model, *name = luaL_checkstring(lua, 1);
    const bool slash = *folder != '\0' && folder[strlen(folder) - 1] == '/';
    free(importer->path);
    return importer->path = text_join("%s%s%s", folder, slash ? "" : "/", name);
}

/* path(name) → the file's path, and whether it is there, as a dangling link is: reading it reports the error */
static int find_file(lua_State *lua)
{
    struct stat status;
    lua_pushstring(lua, path_of(lua));
    lua_pushboolean(lua, lstat(importer_of(lua)->path, &status) == 0);
    return 2;
}

/* names() → the names of the folder's files, in no order */
static int list_files(lua_State *lua)
{
    lua_newtable(lua);
    DIR *names = opendir(importer_of(lua)->request->model);
    for (struct dirent *entry; names != NULL && (entry = readdir(names)) != NULL;) {
        lua_pushstring(lua, entry->d_name);
        lua_rawseti(lua, -2, (lua_Integer)lua_rawlen(lua, -2) + 1);
    }
    if (names != NULL)
        closedir(names);
    return 1;
}

/* Notes that the file was read. */
static void add_source(lua_State *lua)
{
    struct imported *imported = importer_of(lua)->imported;
    imported->sources = memory_grow(imported->sources, imported->source_count + 1, sizeof *imported->sources);
    imported->sources[imported->source_count++] = text_copy(importer_of(lua)->path);
}

/* json(name) → the value of this file, and its first character; nil with an error in diag */
static int read_json(lua_State *lua)
{
    struct importer *importer = importer_of(lua);
    struct json *json = &importer->reader.json;
    const char *const path = path_of(lua);
    size_t size;
    free(importer->text);
    importer->text = file_read(path, WHOLE_CONFIG, &size, importer->diag);
    if (importer->text == NULL)
        return 0;
    add_source(lua);
    *json = json_begin(importer->text, size);
    if (json_push(lua, &importer->reader)) {
        lua_pushlstring(lua, importer->text + strspn(importer->text, " \t\r\n"), 1);
        return 2;
    }
    diag_error(importer->diag, path, "byte %zu: %s", (size_t)(json->at - importer->text), json->why);
    return 0;
}

static bool nothing_wanted(const char *name, const void *context)
{
    (void)name, (void)context;
    return false;
}

/* tensors(name) → by name the tensors of this file's header, {name = type, extents…}; nil with an error in diag */
static int read_tensors(lua_State *lua)
{
    struct importer *importer = importer_of(lua);
    tensors_free(&importer->tensors);
    if (!tensors_read_some(&importer->tensors, path_of(lua), nothing_wanted, NULL, importer->diag))
        return 0;
    add_source(lua);
    lua_createtable(lua, 0, (int)importer->tensors.count);
    for (size_t i = 0; i < importer->tensors.count; i++) {
        const struct tensor *tensor = &importer->tensors.items[i];
        push_shape(lua, tensor_type_name(tensor->type), tensor->shape, tensor->rank);
        lua_setfield(lua, -2, tensor->name);
    }
    return 1;
}

/* ---- what Lua is given, and gives ---- */

static void set_text(lua_State *lua, const char *key, const char *text)
{
    lua_pushstring(lua, text);
    lua_setfield(lua, -2, key);
}

static void set_texts(lua_State *lua, const char *key, const char *const *texts, size_t count)
{
    lua_newtable(lua);
    for (size_t i = 0; i < count; i++) {
        lua_pushstring(lua, texts[i]);
        lua_rawseti(lua, -2, (lua_Integer)i + 1);
    }
    lua_setfield(lua, -2, key);
}

static void set_number(lua_State *lua, const char *key, uint64_t number)
{
    if (number == 0)
        return;
    lua_pushinteger(lua, (lua_Integer)number);
    lua_setfield(lua, -2, key);
}

static void push_options(lua_State *lua, const struct importer *importer)
{
    lua_newtable(lua);
    set_text(lua, "folder", importer->request->model);
    set_text(lua, "name", importer->request->name);
    set_text(lua, "cache", importer->request->cache);
    set_text(lua, "weight_type", importer->request->weight_type);
    set_text(lua, "cache_type", importer->request->cache_type);
    set_text(lua, "precision", importer->request->precision);
    set_text(lua, "exact", importer->request->exact);
    set_number(lua, "seq_len", importer->request->seq_len);
    set_number(lua, "cache_len", importer->request->cache_len);
    lua_pushboolean(lua, importer->request->list);
    lua_setfield(lua, -2, "list");
    set_texts(lua, "ignore", importer->request->ignore->text, importer->request->ignore->count);
}

/* {{ending, text}…}, above the name on the stack */
static void take_files(lua_State *lua, struct importer *importer, const char *name)
{
    for (lua_Integer i = 1; lua_rawgeti(lua, -1, i) == LUA_TTABLE; i++) {
        size_t length;
        lua_rawgeti(lua, -1, 1);
        lua_rawgeti(lua, -2, 2);
        const char *ending = luaL_checkstring(lua, -2), *text = luaL_checklstring(lua, -1, &length);
        char *copy = memcpy(memory_get(length + 1, 1), text, length + 1);
        output_add(&importer->imported->output, importer->request->folder, name, ending, copy, length);
        lua_pop(lua, 3);
    }
    lua_pop(lua, 1);
}

/* (importer) → nothing: texts are in importer->imported, errors in its diag */
static int run(lua_State *lua)
{
    static const luaL_Reg calls[] = {
        {"run", run_file}, {"wrong", note_error}, {"spec", read_spec}, {"path", find_file}, {"names", list_files},
        {"json", read_json}, {"tensors", read_tensors}, {NULL, NULL}};
    struct importer *importer = lua_touserdata(lua, 1);
    script_open(lua);
    lua_pushnil(lua);
    lua_setglobal(lua, "load");
    lua_settop(lua, 0);
    script_load(lua, "model/import.lua"); /* (host, options) → name, files, note; nothing where wrong() was called */
    luaL_newlibtable(lua, calls);
    lua_pushlightuserdata(lua, importer);
    luaL_setfuncs(lua, calls, 1);
    json_push_null(lua);
    lua_setfield(lua, -2, "null");
    push_options(lua, importer);
    lua_call(lua, 2, 3);
    importer->imported->note = lua_isnil(lua, -1) ? NULL : text_copy(luaL_checkstring(lua, -1));
    lua_pop(lua, 1);
    if (!lua_isnil(lua, -2))
        take_files(lua, importer, luaL_checkstring(lua, -2));
    return 0;
}

static void run_script(struct importer *importer)
{
    lua_State *lua = memory_there(lua_newstate(script_allocate, &importer->memory));
    lua_pushcfunction(lua, run);
    lua_pushlightuserdata(lua, importer);
    const int status = lua_pcall(lua, 1, 0, 0);
    if (status == LUA_ERRMEM)
        diag_environment(importer->diag, importer->request->model, "out of memory");
    else if (status != LUA_OK) /* a fault of ours: what is wrong with a model is a value */
        diag_environment(importer->diag, importer->request->model, "import failed: %s", lua_tostring(lua, -1));
    lua_close(lua);
}

/* ---- the command ---- */

static bool ends_in(const char *text, const char *ending)
{
    const size_t length = strlen(text), end = strlen(ending);
    return length >= end && strcmp(text + length - end, ending) == 0;
}

static bool name_good(const struct import_request *request, struct diag *diag)
{
    char good[MAX_NAME + 1];
    const char *fault = request->name != NULL ? layer_name_fault(request->name) : NULL;
    if (fault == NULL)
        return true;
    name_suggest(request->name, good);
    return diag_error(diag, "attngen import", "--name '%s' %s; write for example --name %s", request->name, fault,
                      good);
}

static bool is_folder(const char *folder, struct diag *diag)
{
    struct stat status;
    if (stat(folder, &status) != 0)
        diag_environment(diag, folder, "cannot be read: %s; give the folder of a model", strerror(errno));
    else if (!S_ISDIR(status.st_mode))
        diag_error(diag, folder, "is no folder; give the one that has the model's config.json and model.safetensors");
    else
        return true;
    return false;
}

bool import_model(struct imported *imported, const struct import_request *request, struct diag *diag)
{
    struct importer importer = {.request = request, .diag = diag, .imported = imported};
    const size_t errors = diag->errors;
    if (name_good(request, diag) && (request->model == NULL || is_folder(request->model, diag)))
        run_script(&importer);
    for (size_t i = 0; i < imported->output.count; i++)
        if (ends_in(imported->output.files[i].path, ".layers"))
            imported->layers = imported->output.files[i].path;
    free(importer.reader.text);
    free(importer.path);
    free(importer.text);
    layer_free(importer.layer);
    tensors_free(&importer.tensors);
    return diag->errors == errors;
}

void import_list(const struct import_request *request, FILE *to, struct diag *diag)
{
    OWNED(import_free) struct imported imported = {0};
    import_model(&imported, request, diag);
    for (size_t i = 0; i < imported.output.count; i++)
        fputs(imported.output.files[i].text, to);
}

void import_free(struct imported *imported)
{
    for (size_t i = 0; i < imported->source_count; i++)
        free(imported->sources[i]);
    free(imported->sources);
    free(imported->note);
    output_free(&imported->output);
}
