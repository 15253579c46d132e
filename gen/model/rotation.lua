-- SPDX-License-Identifier: MIT
-- Rotation: keys of a spec from rope_theta, rope_scaling and rope_parameters.
--
--   (Model, words): adds partial(), rope(), scaled_rope() and ropes() to Model

local Model, words = ...
local show_value, number_text, sorted_keys = words.show_value, words.number_text, words.sorted_keys

-- How many columns of a head `d` wide are rotated, by the factor `key` in `from` or in config.json; `default`: without.
function Model:partial(spec, from, name, d, key, default)
    local at = from and from:get("partial_rotary_factor") ~= nil and "partial_rotary_factor"
    local keys = at and from or self.config
    local part = keys:number(at or key, default)
    local columns = d * part // 1 | 0
    if part > 1 or columns < 2 or columns % 2 == 1 then
        keys:wrong(at or key, "is %s: %d columns of a head of %d are rotated; their number must be even",
                   number_text(part), columns, d)
    end
    spec:add("rope_dims", columns < d and columns or nil,
             keys:get(at or key) ~= nil and (at and name or "") .. (at or key) or "default")
    return columns
end

-- rope of a spec, from rope_theta and rope_scaling (Transformers 4) or rope_parameters (5). `of`: positions, d_k.
-- `how`: kind, theta where config.json does not say; theta_key and partial_key, which older files have; partial: the
-- default of a family that rotates some columns of a head; `keys`: the object, where a family has several; kinds: what
-- names of scalings are; original: original_max_position_embeddings where config.json does not say; mixed: whether
-- sections of columns turn by several positions, which are all the same.
function Model:rope(spec, of, _, how)
    how = how or {}
    local config = self.config
    local new, old = how.keys or config:inner("rope_parameters"), not how.keys and config:inner("rope_scaling")
    if new and old and next(old.object) then
        for _, both in ipairs{{new, old}, {old, new}} do
            for _, key in ipairs(sorted_keys(both[1].object)) do
                local value, other = both[1].object[key], both[2].object[key]
                if value ~= other and not old.bad then
                    both[1]:wrong(key, "is %s, and %s%s is %s; leave one of the two objects", show_value(value),
                                  both[2].prefix, key, other == nil and "missing" or show_value(other))
                end
                old.bad = old.bad or value ~= other
            end
        end
        old.bad = true -- as it is not read
    end
    local from = new or old or nil
    local name = from and from.prefix
    local theta_key = how.theta_key or "rope_theta"
    local theta = not how.keys and config:number(theta_key, false) or nil
    if from and from.object.rope_theta ~= nil then
        local outer, outer_key = theta, theta_key
        theta, theta_key = from:number("rope_theta"), name .. "rope_theta"
        if outer and theta and outer ~= theta then
            config:wrong(outer_key, "is %s, and %s is %s; leave one of the two", show_value(outer), theta_key,
                         show_value(theta))
        end
    end
    spec:add("rope", how.kind or "half")
    if how.partial then
        of.rope_dims = self:partial(spec, from, name, of.d_k, how.partial_key or "partial_rotary_factor", how.partial)
    end
    spec:add("rope_theta", theta or how.theta or 10000, theta and theta_key or "no " .. theta_key)
    if not how.partial then
        for _, keys in ipairs{config, from} do
            keys:only("partial_rotary_factor", 1, "the family rotates all columns of a head")
        end
    end
    if not from then return end
    local kinds = how.kinds or {default = "none", linear = "linear", llama3 = "llama3", yarn = "yarn",
                                dynamic = "dynamic", longrope = "longrope", mrope = how.mixed and "none" or nil}
    local kind = from:word(from:get("rope_type") == nil and from:get("type") ~= nil and "type" or "rope_type", kinds,
                           "default")
    from:ignore("type rope_type original_max_position_embeddings finetuned" .. (
        how.mixed and " mrope_section mrope_interleaved" or ""))
    if kind ~= "none" then self:scaled_rope(spec, of, kind, from, how) end
end

-- The numbers of a list, in the spec's words
local function factors(from, key, count)
    local list, words = from:get(key), {}
    for i, value in ipairs(type(list) == "table" and list or {}) do
        words[i] = math.type(value) and value > 0 and value < math.huge and number_text(value) or nil
    end
    if #words ~= count or #words ~= #list then
        from:wrong(key, "is no list of %d numbers above 0, one for each pair of columns", count)
    end
    return table.concat(words, ", ")
end

-- rope_scaling and what belongs to it, from the object `from`
function Model:scaled_rope(spec, of, kind, from, how)
    local name = from.prefix
    local function number(ours, key, default)
        local value = from:number(key, default)
        spec:add(ours, value or nil, from:get(key) ~= nil and name .. key or "default")
        return value
    end
    -- A key beside the object counts in place of that within.
    local outer = not how.keys and self.config:size("original_max_position_embeddings", how.original or false)
    local inner = from:get("original_max_position_embeddings")
    if outer and inner ~= nil and inner ~= outer then
        from:wrong("original_max_position_embeddings", "is %s, and beside the object it is %d", show_value(inner),
                   outer)
    end
    local original = outer or kind ~= "linear" and kind ~= "dynamic" and
                     from:number("original_max_position_embeddings", of.positions) or of.positions
    spec:add("rope_scaling", kind, name .. "rope_type")
    if kind ~= "longrope" then
        number("rope_factor", "factor", kind == "yarn" and of.positions / original or nil)
    end
    if kind == "dynamic" then
        spec:add("rope_original_len", of.positions, "max_position_embeddings")
    elseif kind ~= "linear" then
        spec:add("rope_original_len", original, outer and "original_max_position_embeddings" or
                 inner and name .. "original_max_position_embeddings" or "default")
    end
    if kind == "llama3" then
        number("rope_low", "low_freq_factor")
        number("rope_high", "high_freq_factor")
    elseif kind == "yarn" then
        number("rope_beta_fast", "beta_fast", 32)
        number("rope_beta_slow", "beta_slow", 1)
        spec:add("rope_truncate", from:flag("truncate", true), name .. "truncate")
        local scale, all = from:number("mscale", false), from:number("mscale_all_dim", false)
        local factor = from:number("factor", of.positions / original)
        local function mscale(by) return factor <= 1 and 1 or 0.1 * by * math.log(factor) + 1 end
        if scale and all and from:get("attention_factor") == nil then
            spec:add("rope_attention_factor", mscale(scale) / mscale(all), "mscale over mscale_all_dim")
        else
            number("rope_attention_factor", "attention_factor", false)
        end
        from:only("attn_factor", nil, "write attention_factor, which is a spec's rope_attention_factor")
    elseif kind == "longrope" then
        local pairs_of = (of.rope_dims or of.d_k) // 2
        local factor = from:number("factor", of.positions / original)
        spec:add("rope_factors", factors(from, "short_factor", pairs_of), name .. "short_factor")
        spec:add("rope_long_factors", factors(from, "long_factor", pairs_of), name .. "long_factor")
        if not number("rope_attention_factor", "attention_factor", false) and factor > 1 and original > 1 then
            spec:add("rope_attention_factor", math.sqrt(1 + math.log(factor) / math.log(original)),
                     "1 + ln(factor) / ln(rope_original_len), its root")
        end
    end
    if kind == "dynamic" or kind == "longrope" then
        spec:add("rope_len", self.longest, "tokens of the longest sequence")
        if self.longest > original then
            self:note("rotation is that of sequences of %d tokens, and transformers has another one for those of " ..
                      "up to %d; --%s %d has that one", self.longest, original,
                      self.kept and "cache-len" or "seq-len", original)
        end
    end
end

-- Rotation of a family whose layers with a window have numbers of their own: → function(m, spec, of, layer), from
-- rope_parameters of each kind, or by `window` and `full`, {key or nil, theta} where that is missing.
function Model:ropes(window, full)
    local c = self.config
    local nested = c:inner("rope_parameters")
    local thetas = {[true] = window[1] and c:number(window[1], window[2]) or window[2],
                    [false] = full[1] and c:number(full[1], full[2]) or full[2]}
    if nested then
        nested:ignore("full_attention sliding_attention")
        c:only("rope_scaling", nil, "rope_parameters are there")
    end
    return function(_, spec, of, layer)
        local keys = nested and nested:inner(layer.window and "sliding_attention" or "full_attention")
        if keys or not nested and not layer.window then
            self:rope(spec, of, layer, {keys = keys, theta = thetas[layer.window], theta_key = not keys and full[1]})
        else
            spec:add("rope", "half"):add("rope_theta", thetas[layer.window], layer.window and window[1] or full[1])
            c:ignore("rope_scaling rope_theta")
        end
    end
end
