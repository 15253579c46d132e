/* SPDX-License-Identifier: MIT */
/* See import.h. Everything that can raise a Lua error runs under lua_pcall(); what a script leaves to be freed is held
 * by the importer.
 */
#include "model/import.h"

#include <stdlib.h>
#include <string.h>

#include <lauxlib.h>
#include <lua.h>

#include "base/diag.h"
#include "base/name.h"
#include "base/options.h"
#include "base/output.h"
#include "emit/script.h"
#include "model/checkpoint.h"
#include "model/json_lua.h"
#include "plan/plan.h"
#include "spec/layer.h"

struct importer {
    const struct import_request *request;
    struct diag *diag;
    struct checkpoint checkpoint;
    struct script_memory memory;
    struct json_lua reader;
    char *text;          /* of the file that json() read last */
    struct layer *layer; /* of the spec that is looked at */
    struct imported *imported;
};

/* ---- what import.lua may call ---- */

/* family(file) → what the family's chunk returns */
static int load_family(lua_State *lua)
{
    script_load(lua, luaL_checkstring(lua, 1));
    lua_call(lua, 0, 1);
    return 1;
}

/* One of the layer's tensors as the next element of the list: {name = "w_q", 384, 384}. */
static void push_shape(lua_State *lua, const char *name, const int64_t *shape, int rank)
{
    lua_createtable(lua, rank, 1);
    lua_pushstring(lua, name);
    lua_setfield(lua, -2, "name");
    for (int i = 0; i < rank; i++) {
        lua_pushinteger(lua, shape[i]);
        lua_rawseti(lua, -2, i + 1);
    }
    lua_rawseti(lua, -2, (lua_Integer)lua_rawlen(lua, -2) + 1);
}

/* Of one sequence */
static int64_t cache_bytes(const struct layer *layer)
{
    const int64_t numbers = (layer->d_k + layer->d_v) * (int64_t)element_size(layer->cache_type);
    return layer->cache_len * layer->h_kv * (numbers + (layer_scales_cache(layer) ? 2 * (int64_t)sizeof(float) : 0));
}

/* spec(file, text) → the tensors that a layer of this spec is packed from, with their shapes as they lie on disk, and
 * its bytes of cache; nil, and errors in diag, for a spec that attngen would refuse. */
static int read_spec(lua_State *lua)
{
    struct importer *importer = lua_touserdata(lua, lua_upvalueindex(1));
    const char *file = luaL_checkstring(lua, 1), *text = luaL_checkstring(lua, 2);
    layer_free(importer->layer);
    importer->layer = layer_read_text(file, text, NULL, 0, importer->diag);
    if (importer->layer == NULL) {
        diag_error(importer->diag, importer->checkpoint.config_path, "gives the spec %s, which has the faults above",
                   file);
        return 0;
    }
    plan_refuse_isas(importer->layer, importer->request->isas, importer->diag);
    lua_newtable(lua);
    for (enum layer_tensor tensor = 0; tensor < TENSOR_COUNT; tensor++) {
        int64_t shape[4];
        if (layer_has_tensor(importer->layer, tensor) && tensor_is_packed(layer_tensor_row(tensor)->kind))
            push_shape(lua, layer_tensor_called(importer->layer, tensor), shape,
                       layer_weight_shape(importer->layer, tensor, shape));
    }
    lua_pushinteger(lua, cache_bytes(importer->layer));
    return 2;
}

/* Notes that FOLDER/NAME, or without a name the path, was read. */
static bool add_source(struct imported *imported, const char *folder, const char *name)
{
    char **sources = realloc(imported->sources, (imported->source_count + 1) * sizeof *sources), *path;
    if (sources != NULL)
        imported->sources = sources;
    if (sources == NULL || asprintf(&path, name != NULL ? "%s/%s" : "%s", folder, name) < 0)
        return false;
    sources[imported->source_count++] = path;
    return true;
}

/* json(name) → the value of this file of the model's folder; nil where there is none, or with an error in diag */
static int read_json(lua_State *lua)
{
    struct importer *importer = lua_touserdata(lua, lua_upvalueindex(1));
    struct json *json = &importer->reader.json;
    const char *name = luaL_checkstring(lua, 1);
    size_t size;
    free(importer->text);
    importer->text = checkpoint_text(importer->request->model, name, &size, importer->diag);
    if (importer->text == NULL)
        return 0;
    if (!add_source(importer->imported, importer->request->model, name))
        return luaL_error(lua, "no memory for the paths");
    *json = json_begin(importer->text, size);
    if (json_push(lua, &importer->reader))
        return 1;
    diag_error(importer->diag, name, "byte %zu: %s", (size_t)(json->at - importer->text), json->why);
    return 0;
}

/* ---- what import.lua is given ---- */

static void push_tensors(lua_State *lua, const struct tensors *tensors)
{
    lua_createtable(lua, 0, (int)tensors->count);
    for (size_t i = 0; i < tensors->count; i++) {
        const struct tensor *tensor = &tensors->items[i];
        lua_newtable(lua);
        push_shape(lua, tensor_type_name(tensor->type), tensor->shape, tensor->rank);
        lua_rawgeti(lua, -1, 1);
        lua_setfield(lua, -3, tensor->name);
        lua_pop(lua, 1);
    }
}

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
    set_text(lua, "name", importer->request->name);
    set_text(lua, "cache", importer->request->cache);
    set_text(lua, "weight_type", importer->request->weight_type);
    set_text(lua, "cache_type", importer->request->cache_type);
    set_text(lua, "precision", importer->request->precision);
    set_number(lua, "seq_len", importer->request->seq_len);
    set_number(lua, "cache_len", importer->request->cache_len);
    set_texts(lua, "files", (const char *const *)importer->checkpoint.files, importer->checkpoint.file_count);
    set_texts(lua, "ignore", importer->request->ignore->text, importer->request->ignore->count);
}

static bool push_config(lua_State *lua, struct importer *importer)
{
    const struct checkpoint *checkpoint = &importer->checkpoint;
    struct json *json = &importer->reader.json;
    *json = json_begin(checkpoint->config, checkpoint->config_size);
    if (!json_push(lua, &importer->reader)) {
        if (json->no_memory)
            diag_environment(importer->diag, checkpoint->config_path, "out of memory");
        else
            diag_error(importer->diag, checkpoint->config_path, "byte %zu: %s",
                       (size_t)(json->at - checkpoint->config), json->why);
        return false;
    }
    if (lua_istable(lua, -1) && checkpoint->config[strspn(checkpoint->config, " \t\r\n")] == '{')
        return true;
    return diag_error(importer->diag, checkpoint->config_path, "is no JSON object; the config.json of a model is "
                      "needed");
}

/* ---- what import.lua gives ---- */

/* {{"config" or "weights" or "", text}…} */
static void take_problems(lua_State *lua, struct importer *importer)
{
    for (lua_Integer i = 1; lua_rawgeti(lua, -1, i) == LUA_TTABLE; i++) {
        lua_rawgeti(lua, -1, 1);
        lua_rawgeti(lua, -2, 2);
        const char *where = luaL_checkstring(lua, -2);
        diag_error(importer->diag, strcmp(where, "config") == 0 ? importer->checkpoint.config_path
                   : strcmp(where, "weights") == 0 ? importer->checkpoint.weights_path : "attngen import", "%s",
                   luaL_checkstring(lua, -1));
        lua_pop(lua, 3);
    }
    lua_pop(lua, 1);
}

/* {{ending, text}…}, behind the name */
static void take_files(lua_State *lua, struct importer *importer, const char *name)
{
    for (lua_Integer i = 1; lua_rawgeti(lua, -1, i) == LUA_TTABLE; i++) {
        size_t length;
        lua_rawgeti(lua, -1, 1);
        lua_rawgeti(lua, -2, 2);
        const char *ending = luaL_checkstring(lua, -2), *text = luaL_checklstring(lua, -1, &length);
        char *copy = malloc(length + 1);
        if (copy != NULL)
            memcpy(copy, text, length + 1);
        if (copy == NULL || !output_add(&importer->imported->output, importer->request->folder, name, ending, copy,
                                        length))
            diag_environment(importer->diag, NULL, "no memory for the texts");
        lua_pop(lua, 3);
    }
    lua_pop(lua, 1);
}

/* (importer) → nothing: texts are in importer->imported, errors in its diag */
static int run(lua_State *lua)
{
    struct importer *importer = lua_touserdata(lua, 1);
    const size_t errors = importer->diag->errors;
    script_open(lua);
    lua_pushnil(lua);
    lua_setglobal(lua, "load");
    lua_settop(lua, 0);
    script_load(lua, "model/import.lua");
    lua_createtable(lua, 0, 3);
    json_push_null(lua);
    lua_setfield(lua, -2, "null");
    lua_pushcfunction(lua, load_family);
    lua_setfield(lua, -2, "family");
    lua_pushlightuserdata(lua, importer);
    lua_pushcclosure(lua, read_spec, 1);
    lua_setfield(lua, -2, "spec");
    lua_pushlightuserdata(lua, importer);
    lua_pushcclosure(lua, read_json, 1);
    lua_setfield(lua, -2, "json");
    lua_call(lua, 1, 1);
    if (!push_config(lua, importer))
        return 0;
    push_tensors(lua, &importer->checkpoint.tensors);
    push_options(lua, importer);
    lua_call(lua, 3, 4); /* (config, tensors, options) → problems, name, files, note */
    importer->imported->note = lua_isnil(lua, -1) ? NULL : strdup(luaL_checkstring(lua, -1));
    lua_pop(lua, 1);
    const char *name = luaL_checkstring(lua, -2);
    lua_pushvalue(lua, -3);
    take_problems(lua, importer);
    lua_pop(lua, 1);
    if (importer->diag->errors == errors)
        take_files(lua, importer, name);
    return 0;
}

static void run_script(struct importer *importer)
{
    lua_State *lua = lua_newstate(script_allocate, &importer->memory);
    int status = LUA_ERRMEM;
    if (lua != NULL) {
        lua_pushcfunction(lua, run);
        lua_pushlightuserdata(lua, importer);
        status = lua_pcall(lua, 1, 0, 0);
    }
    if (status == LUA_ERRMEM)
        diag_environment(importer->diag, importer->request->model, "out of memory");
    else if (status != LUA_OK) /* a fault of ours: what is wrong with a model is a value */
        diag_environment(importer->diag, importer->request->model, "import failed: %s", lua_tostring(lua, -1));
    if (lua != NULL)
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

/* The path of NAME.layers, and what the folder was read from. */
static bool name_files(struct imported *imported, const struct import_request *request,
                       const struct checkpoint *checkpoint)
{
    for (size_t i = 0; i < imported->output.count; i++)
        if (imported->layers == NULL && ends_in(imported->output.files[i].path, ".layers"))
            imported->layers = imported->output.files[i].path;
    bool good = add_source(imported, checkpoint->config_path, NULL) &&
                add_source(imported, checkpoint->weights_path, NULL);
    for (size_t i = 0; good && i < checkpoint->file_count && ends_in(checkpoint->weights_path, ".json"); i++)
        good = add_source(imported, request->model, checkpoint->files[i]);
    return good;
}

bool import_model(struct imported *imported, const struct import_request *request, struct diag *diag)
{
    struct importer importer = {.request = request, .diag = diag, .imported = imported};
    const size_t errors = diag->errors;
    if (name_good(request, diag) && checkpoint_read(&importer.checkpoint, request->model, diag))
        run_script(&importer);
    if (diag->errors == errors && !name_files(imported, request, &importer.checkpoint))
        diag_environment(diag, NULL, "no memory for the paths");
    free(importer.reader.text);
    free(importer.text);
    layer_free(importer.layer);
    checkpoint_free(&importer.checkpoint);
    return diag->errors == errors;
}

void import_free(struct imported *imported)
{
    for (size_t i = 0; i < imported->source_count; i++)
        free(imported->sources[i]);
    free(imported->sources);
    free(imported->note);
    output_free(&imported->output);
}
