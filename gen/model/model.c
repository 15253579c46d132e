/* SPDX-License-Identifier: MIT */
#include "model/model.h"

#include <stdlib.h>
#include <string.h>

#include <lauxlib.h>
#include <lua.h>

#include "base/arith.h"
#include "base/diag.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/name.h"
#include "emit/emit.h"
#include "emit/script.h"
#include "spec/layer.h"

struct model {
    struct pool memory; /* of what follows */
    char *path, *text, *name;
    size_t length;  /* of the text */
    char **specs;   /* their paths */
    int64_t *users; /* layers of the stacks that have the spec [spec_count] */
    size_t spec_count;
};

/* ---- reading ---- */

/* fault(word) → why it cannot be a name in C; nil: it can */
static int push_fault(lua_State *lua)
{
    lua_pushstring(lua, layer_name_fault(luaL_checkstring(lua, 1)));
    return 1;
}

/* (text, path) → the sections of layers.lua */
static int push_sections(lua_State *lua)
{
    script_load(lua, "model/layers.lua");
    lua_insert(lua, 1);
    lua_pushcfunction(lua, push_fault);
    lua_call(lua, 3, 1);
    return 1;
}

/* A copy of a text of Lua's, which a later error does not lose */
static char *keep(lua_State *lua, struct model *model, int folder_length)
{
    char *copy = pool_take(&model->memory, text_join("%.*s%s", folder_length, model->path, lua_tostring(lua, -1)));
    lua_pop(lua, 1);
    return copy;
}

/* (model) → nothing: its name, its specs and their users */
static int take_sections(lua_State *lua)
{
    struct model *model = lua_touserdata(lua, 1);
    const char *slash = strrchr(model->path, '/');
    const int folder = slash != NULL ? (int)(slash - model->path) + 1 : 0;
    script_open(lua);
    lua_settop(lua, 0);
    lua_pushlstring(lua, model->text, model->length);
    lua_pushstring(lua, model->path);
    push_sections(lua);
    lua_getfield(lua, -1, "name");
    model->name = keep(lua, model, 0);
    lua_getfield(lua, -1, "users");
    lua_getfield(lua, -2, "specs");
    const size_t count = (size_t)lua_rawlen(lua, -1);
    model->specs = pool_get(&model->memory, count, sizeof *model->specs);
    model->users = pool_get(&model->memory, count, sizeof *model->users);
    for (; model->spec_count < count; model->spec_count++) {
        const lua_Integer item = (lua_Integer)model->spec_count + 1;
        lua_rawgeti(lua, -2, item);
        model->users[model->spec_count] = lua_tointeger(lua, -1);
        lua_pop(lua, 1);
        lua_rawgeti(lua, -1, item);
        model->specs[model->spec_count] = keep(lua, model, folder);
    }
    return 0;
}

/* Reports {0, place, 0, text} of layers.lua, or what Lua itself says. */
static void report(lua_State *lua, int status, const char *path, struct diag *diag)
{
    const char *text = lua_tostring(lua, -1);
    if (status == LUA_ERRRUN && text[0] == '\0')
        diag_error(diag, text + 1, "%s", text + 1 + strlen(text + 1) + 1);
    else
        diag_environment(diag, path, "%s", status == LUA_ERRMEM ? "out of memory" : text);
}

struct model *model_read(const char *path, const char *text, struct diag *diag)
{
    struct script_memory memory = {0};
    struct model *model = memory_get(1, sizeof *model);
    lua_State *lua = memory_there(lua_newstate(script_allocate, &memory));
    int status = LUA_ERRERR;
    model->path = pool_take(&model->memory, text_copy(path));
    model->text = pool_take(&model->memory, text != NULL ? text_copy(text)
                                                         : file_read(path, WHOLE_LAYERS, &model->length, diag));
    if (text != NULL)
        model->length = strlen(text);
    if (model->text != NULL) {
        lua_pushcfunction(lua, take_sections);
        lua_pushlightuserdata(lua, model);
        status = lua_pcall(lua, 1, 0, 0);
        if (status != LUA_OK)
            report(lua, status, path, diag);
    }
    lua_close(lua);
    if (status == LUA_OK)
        return model;
    model_free(model);
    return NULL;
}

void model_free(struct model *model)
{
    if (model == NULL)
        return;
    pool_free(&model->memory);
    free(model);
}

const char *model_name(const struct model *model)
{
    return model->name;
}

const char *const *model_specs(const struct model *model, size_t *count)
{
    *count = model->spec_count;
    return (const char *const *)model->specs;
}

/* ---- for the templates ---- */

/* Tensors that a layer is packed from: the field and its extents. */
static void push_tensors(const struct layer *layer, struct emit *emit)
{
    const struct layer_parameters parameters = layer_parameters(layer);
    emit_begin_table(emit, "tensors");
    for (enum layer_tensor tensor = 0; tensor < TENSOR_COUNT; tensor++) {
        if (!layer_has_tensor(layer, tensor) || !tensor_is_packed(layer_tensor_row(tensor)->kind))
            continue;
        int64_t shape[4];
        const int axes = layer_weight_shape(layer, tensor, shape);
        emit_begin_item(emit);
        emit_set_string(emit, "field", layer_tensor_called(layer, tensor));
        emit_set_boolean(emit, "matrix", layer_tensor_row(tensor)->kind == TENSOR_WEIGHT);
        emit_set_boolean(emit, "table", layer_tensor_row(tensor)->kind == TENSOR_NAMED);
        emit_set_integer(emit, "axes", axes);
        emit_set_integer(emit, "first", axes > 0 ? shape[0] : 1);
        emit_set_integer(emit, "size", parameters.of[tensor]);
        emit_end(emit);
    }
    emit_end(emit);
}

/* Tensors of a call: their names. */
static void push_call(const struct layer *layer, struct emit *emit)
{
    emit_begin_table(emit, "call");
    for (enum layer_tensor tensor = 0; tensor < TENSOR_COUNT; tensor++) {
        if (!layer_has_tensor(layer, tensor) || tensor_is_packed(layer_tensor_row(tensor)->kind))
            continue;
        emit_begin_item(emit);
        emit_set_string(emit, "name", layer_tensor_name(tensor));
        emit_end(emit);
    }
    emit_end(emit);
}

/* Of the cache of one sequence, or page; the next layer's begins at a multiple of 4, where a float may be. */
static int64_t cache_bytes(const struct layer *layer)
{
    const int64_t rows = layer->cache == CACHE_PAGED ? layer->page_len : layer->cache_len;
    return layer_has_cache(layer) ? round_up(rows * layer_cached_bytes(layer), 4) : 0;
}

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* Of the state and the convolution's state of one sequence, as the floats */
static int64_t state_bytes(const struct layer *layer)
{
    if (!layer_is_recurrent(layer))
        return 0;
    const int64_t numbers = layer_state_numbers(layer) + layer->conv_channels * layer->conv_history;
    return round_up(numbers * (int64_t)element_size(layer->cache_type), (int64_t)sizeof(float));
}

void model_place_caches(const struct model *model, struct layer *const *layers)
{
    int64_t bytes = 0, states = MODEL_STATES_BEGIN;
    for (size_t i = 0; i < model->spec_count; i++) {
        bytes += model->users[i] * cache_bytes(layers[i]);
        states += model->users[i] * state_bytes(layers[i]);
    }
    states = round_up(states, MODEL_STATES_BEGIN);
    for (size_t i = 0; i < model->spec_count; i++) {
        if (layer_has_cache(layers[i]) && layers[i]->cache != CACHE_PAGED)
            layers[i]->cache_apart = bytes;
        if (layer_is_recurrent(layers[i]))
            layers[i]->cache_apart = states;
    }
}

static void push_spec(const char *path, const struct layer *layer, struct emit *emit)
{
    emit_begin_item(emit);
    emit_set_string(emit, "file", file_name(path));
    emit_set_string(emit, "name", layer->name);
    emit_set_string(emit, "cache_type", element_name(layer->cache_type));
    emit_set_integers(emit, EMITTED(
        {"cache_size", (int64_t)element_size(layer->cache_type)}, /* of a number */
        {"d_in", layer->d_model}, {"d_out", layer->d_out}, {"seq_len", layer->seq_len},
        {"source_len", layer->source_len}, {"d_source", layer->d_source}, {"cache_len", layer->cache_len},
        {"page_len", layer->page_len}));
    emit_set_booleans(emit, EMITTED(
        {"shares", layer->shares}, /* there is no cache of values */
        {"linear", layer_is_linear(layer)}, {"portable", layer->portable}, {"ffn", layer->kind == LAYER_FFN},
        {"cross", layer->cross}, {"kept", layer->source_kept}, {"pad_skipped", layer->pad_skipped},
        {"out_in", layer->out_in}, {"cached", layer_has_cache(layer)}, {"paged", layer->cache == CACHE_PAGED},
        {"ring", layer->cache == CACHE_RING}, {"stored", layer_stores_cache(layer)}));
    const int64_t rows = layer->cache == CACHE_PAGED ? layer->page_len : layer->cache_len;
    emit_set_integers(emit, EMITTED(
        {"cache_bytes", cache_bytes(layer)}, /* of a sequence, or a page, as the floats */
        {"cache_rows", rows}, /* of a head */
        {"k_row", layer->d_k * (int64_t)element_size(layer->cache_type)}, /* bytes */
        {"scale_floats", layer_scales_cache(layer) ? rows * layer->h_kv : 0}, /* of either */
        {"k_floats", rows * layer->h_kv * layer->d_k}, {"heads", layer->h_kv},
        {"v_row", layer->d_v * (int64_t)element_size(layer->cache_type)}, {"state_bytes", state_bytes(layer)},
        {"state_floats", layer_is_recurrent(layer) ? layer_state_numbers(layer) : 0},
        {"states_begin", MODEL_STATES_BEGIN}));
    push_tensors(layer, emit);
    push_call(layer, emit);
    emit_end(emit);
}

void model_context(const struct model *model, struct layer *const *layers, struct emit *emit)
{
    emit_set_string(emit, "path", model->path);
    emit_set_string(emit, "layers_text", model->text);
    emit_begin_table(emit, "specs");
    for (size_t i = 0; i < model->spec_count; i++)
        push_spec(model->specs[i], layers[i], emit);
    emit_end(emit);
}
