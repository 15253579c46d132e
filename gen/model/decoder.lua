-- SPDX-License-Identifier: MIT
-- A stack of tokens with one kind of attention: embedding, layers, a last norm, logits. The function that this file
-- returns makes it for a family, whose file says where it is not Llama:
--
--   keys       of config.json, as `keys` below; false: there is no such key
--   prefixes, word, layer, last, head    names of tensors; last: false where no norm is last
--   attention, ffn_modules, norms        names of modules behind a layer's, by the letters of a spec's tensors; norms
--              may be a function(at)
--   layout     of matrices
--   both       true: tokens see later tokens too, and the stack is an encoder
--   bare       function(i) → whether attention of layer i from 0 on has no norm before it
--   heads      function(m, does, of): in place of logits and labels
--   classes    by the endings of their names; labels: those that there are with labels, see Model:with_labels()
--   act        the activation where config.json does not say; ffn: the one that all models have
--   gated      false: no gate
--   inner      d_ff over d_model where config.json does not say d_ff
--   heads_kv   how many heads of keys where config.json does not say; nil: as many as of queries. heads_all: of all
--              models of the family
--   defaults, most   of sizes that config.json may leave out, by their keys; of positions
--   width      d_k where config.json does not say; nil: d_model / h
--   biases     letters of the products that have one: q, k, v, o, and 1 for the feed-forward. A function of the config
--   fused      function(m, w, at, of): tensors that come out of one
--   norm, eps  layer or rms, and its eps where config.json does not say; shift: false: a layer norm has none; gain:
--              false: it has neither
--   narrow     {width, into, out}: words of another width, and the modules of products into the model's and out of it
--   block      pre, parallel, sandwich or post; norm_shared: of parallel. plus_one, tied: as their names say
--   qk_norm    {q, k: modules; kind, rms if nil; shift: whether it has one; each: tensors of each head behind a module}
--   residual   factor of what attention and feed-forward add
--   windows    function(m, layers) → how far a window reaches, which layers have one; nil: none
--   rope       function(m, spec, of, layer): rotation, by the number of a layer; without: Model:rope()
--   turned     function(i) → whether layer i from 0 on is rotated; nil: all are
--   more       function(m, spec): keys of a spec that others do not have
--   recurrent  what recurrent.lua takes: some layers have states in place of keys
--   positions  {module, offset} of learned ones; offset: rows before the first
--   norm_in    module of a norm behind the embedding
--   scale      function(width) → a factor of the embedding
--   logits     {softcap, scale, bias}, as of Model:logits()

local llama = {
    keys = {width = "hidden_size", layers = "num_hidden_layers", h = "num_attention_heads",
            h_kv = "num_key_value_heads", d_k = "head_dim", d_ff = "intermediate_size",
            positions = "max_position_embeddings", eps = "rms_norm_eps", act = "hidden_act"},
    classes = {Model = "", ForCausalLM = "words"}, labels = "score tokens spans",
    prefixes = {"model.", "", "transformer."},
    word = "embed_tokens", layer = "layers.%d.", last = "norm", head = "lm_head", layout = "out_in", act = "silu",
    attention = {q = "self_attn.q_proj", k = "self_attn.k_proj", v = "self_attn.v_proj", o = "self_attn.o_proj"},
    ffn_modules = {g = "mlp.gate_proj", ["1"] = "mlp.up_proj", ["2"] = "mlp.down_proj"},
    norms = {n1 = "input_layernorm", n2 = "post_attention_layernorm"}, norm = "rms", eps = 1e-6, block = "pre",
    gated = true, tied = false, shift = true, gain = true, biases = function() return "" end,
}
llama.keys.__index = llama.keys

local abouts = {outputs = "A layer with norms of what attention and feed-forward put out",
                pre = "A layer with norms before attention and feed-forward",
                post = "A layer with norms behind attention and feed-forward",
                parallel = "A layer whose attention and feed-forward stand side by side",
                sandwich = "A layer with norms around attention and feed-forward"}

-- Tensors of attention, in the layer whose names begin with `at`
local function attention_weights(m, kind, of, at)
    local w = m:modules(at, kind.attention, not of.bias)
    if kind.fused then kind.fused(m, w, at, of) end
    for letter in of.without:gmatch(".") do
        w["b_" .. letter] = m.zeros
    end
    if kind.qk_norm then
        for key, name in pairs{g_q = kind.qk_norm.q, g_k = kind.qk_norm.k} do
            local heads = kind.qk_norm.each and (key == "g_q" and of.h or of.h_kv)
            w[key] = heads and m:pieces(at .. name .. "." .. kind.qk_norm.each, heads, of.d_k) or
                kind.plus_one and m:plus_one(at .. name .. ".weight") or at .. name .. ".weight"
            w[key:gsub("g", "c")] = kind.qk_norm.shift and at .. name .. ".bias" or nil
        end
    end
    return w
end

-- Tensors of the layer whose names begin with `at`.
local function weights(m, kind, of, at, layer)
    local w = layer.states and {} or attention_weights(m, kind, of, at)
    local norms = layer.states and kind.recurrent.norms or kind.norms
    norms = type(norms) == "function" and norms(at) or norms
    if layer.states then kind.recurrent.weights(w, at) end
    m:modules(at, kind.ffn_modules, not of.ffn_bias, w)
    for norm, name in pairs(layer.bare and {n1 = norms.n2} or norms) do
        local gain, shift = m:norm_names(at .. name)
        w[norm .. "_g"] = kind.plus_one and m:plus_one(gain) or kind.gain and gain or m.ones
        w[norm .. "_b"] = kind.norm == "layer" and kind.shift and kind.gain and shift or nil
    end
    for _, key in ipairs(kind.residual and {"w_o", "b_o", "w_2", "b_2"} or {}) do
        w[key] = w[key] and m:times(w[key], kind.residual)
    end
    return w
end

-- Layers that are alike have one spec: → of each layer from 1 on, {name of the spec, window, turned, bare, states}
local function sorts(count, left, windowed, turned, bare, states)
    local of, first, varies, mixed = {}, {}, {}, false
    for i = 1, count do
        local window = left and windowed[i] or false
        local turns = turned == nil or turned(i - 1, window)
        of[i] = {window = window, turned = turns, bare = bare ~= nil and bare(i - 1), i = i,
                 states = states ~= nil and states[i]}
        if first[window] == nil then first[window] = turns end
        varies[window] = true
        mixed = mixed or first[window] ~= turns
    end
    for _, layer in ipairs(of) do
        local name = varies[true] and varies[false] and (layer.window and "window" or "full") or nil
        local turns = mixed and (layer.turned and "rope" or "no_rope") or nil
        layer.name = name and turns and name .. "_" .. turns or name or turns or "layer"
        layer.name = layer.bare and "bare_" .. layer.name or layer.name
        layer.name = layer.states and "recurrent" or states and layer.name == "layer" and "attention" or layer.name
    end
    return of
end

return function(m, kind)
    setmetatable(kind, {__index = llama})
    local c, keys = m.config, setmetatable(kind.keys, llama.keys)
    local does = m:class(kind.heads and kind.classes or m:with_labels(kind.classes, kind.labels),
                         {kind.head:gsub("%.", "%%.") .. "%..*", "score%..*", "classifier%..*", "qa_outputs%..*"})
    local defaults = kind.defaults or {}
    local width, layers = c:size(keys.width, defaults[keys.width]), c:layers(keys.layers, defaults[keys.layers])
    local vocab, h = c:size("vocab_size", defaults.vocab_size), c:size(keys.h, defaults[keys.h])
    local eps = keys.eps and c:number(keys.eps, kind.eps, 1) or kind.eps
    local positions = c:size(keys.positions, kind.most or defaults[keys.positions])
    local h_kv = keys.h_kv and c:size(keys.h_kv, false)
    local d_k = keys.d_k and c:size(keys.d_k, kind.width or false)
    h_kv = h_kv or keys.h_kv and c.object[keys.h_kv] == nil and kind.heads_kv or kind.heads_all or h
    local inner = keys.d_ff and c:size(keys.d_ff, defaults[keys.d_ff] or kind.inner and false)
    local written = inner and keys.d_ff or ("%d %s"):format(kind.inner or 0, keys.width)
    local activation = kind.ffn or c:word(keys.act, kind.gated and m.gated or m.activations, kind.act)
    local biases = kind.biases(c)
    local tied = c:flag("tie_word_embeddings", kind.tied)
    local left, windowed
    if kind.windows then left, windowed = kind.windows(m, layers) end
    c:ignore("pretraining_tp" .. (kind.both and "" or " is_decoder"))
    if not kind.both and not kind.positions and kind.rope ~= false and not kind.recurrent and
       not c:flag("is_causal", true) then
        kind.both, left, kind.window_key = true, left and left + 1, "sliding_window, on both sides"
    end
    local stack = kind.both and "encoder" or "decoder"
    local seq, all, cache = m:lengths(positions, kind.positions ~= nil, not kind.both)
    if not d_k and width % h ~= 0 then
        c:wrong(keys.width, "is %d, no multiple of %s%s", width, keys.h,
                keys.d_k and ", and there is no " .. keys.d_k or "")
    end
    local of = {h = h, h_kv = h_kv, d_k = d_k or width // h, width = width, d_ff = inner or width * kind.inner,
                positions = positions, bias = biases:find("[qkvo]") ~= nil, ffn_bias = biases:find("1") ~= nil}
    of.without = of.bias and ("qkvo"):gsub("[" .. biases .. "]", "") or ""

    local recurrent = kind.recurrent and m:recurrent(kind.recurrent)
    kind.recurrent = recurrent
    if recurrent and cache == "none" then
        m:wrong("", "--cache none is for layers that have keys alone, and %s models have states; give rows or paged",
                m.family)
    end

    local function describe_attention(spec, layer)
        local reach = layer.window and left or nil
        spec:add("h", h, keys.h):add("h_kv", (keys.h_kv or h_kv < h) and h_kv or nil, keys.h_kv or "one for all")
        if d_k then spec:add("d_k", d_k, keys.d_k):add("d_v", d_k, keys.d_k) end
        if kind.both then
            spec:add("seq_len", seq, m.seq_of or keys.positions .. ", or --seq-len"):padding("", reach and "+window")
            spec:add("window_left", reach, kind.window_key):add("window_right", reach, kind.window_key)
        else
            m:cache(spec, seq, all, cache, reach)
        end
        if kind.both then
            reach = nil
        elseif reach then
            m:causal(spec, "+window"):add("window_left", reach, (kind.window_key or "sliding_window") ..
                                          " less the query's own position")
        else
            m:causal(spec)
        end
        local zeros = of.without:gsub(".", "b_%0, "):gsub(", $", ""):gsub("^(.*), ", "%1 and ")
        spec:add("bias", of.bias and "true" or "false",
                 zeros ~= "" and zeros .. (#of.without > 1 and " are" or " is") .. " zeros: the model has none" or nil)
        spec:weights_lie(kind.layout)
        if layer.turned and kind.rope ~= false then (kind.rope or m.rope)(m, spec, of, layer) end
        spec:add("qk_norm", kind.qk_norm and (kind.qk_norm.kind or "rms") or nil)
        if kind.more then kind.more(m, spec, of) end
    end

    local function make_spec(layer)
        local block = layer.states and recurrent.block or kind.block
        local spec = m:spec(layer.name, abouts[block] .. (layer.window and ", and a window" or
                                                          layer.states and ", and a state in place of keys" or ""))
        spec:add("d_model", width, keys.width)
        if layer.states then
            recurrent.describe(spec, seq, kind.layout)
        else
            describe_attention(spec, layer)
        end
        spec:block(block, kind.norm, eps, keys.eps or kind.eps_of)
        spec:add("norm_bias", kind.norm == "layer" and not (kind.shift and kind.gain) and "false" or nil)
        spec:add("input_norm", layer.bare and "false" or nil)
        spec:add("norm_shared", kind.norm_shared and "true" or nil)
        spec:add("ffn", activation, kind.ffn and kind.ffn_of or keys.act):add("d_ff", of.d_ff, written)
        if of.ffn_bias or of.bias and not layer.states then
            spec:add("ffn_bias", of.ffn_bias and "true" or "false")
        end
        return spec
    end
    local specs, list = {}, sorts(layers, left, windowed, kind.turned, kind.bare,
                                  recurrent and recurrent.layers(layers))
    c:ignore((kind.turned or recurrent) and "rope_parameters rope_scaling rope_theta" or "") -- if no layer is rotated
    for _, layer in ipairs(list) do
        specs[layer.name] = specs[layer.name] or make_spec(layer)
    end

    local p = m:prefix(kind.prefixes, kind.word .. ".weight")
    local word = p .. kind.word .. ".weight"
    m:input(stack, "tokens", m:needs(cache), width):add("vocab", vocab):add("seq_len", seq)
        :add("positions", not kind.both and positions or nil)
    local narrow = kind.narrow
    local embedding = m:section(stack .. " embedding")
    embedding:weight("word", word, {vocab, narrow and narrow.width or width})
    embedding:add("scale", kind.scale and kind.scale(width))
    local product = narrow and m:projection(stack, {d_in = narrow.width, d_out = width,
                                                        w = p .. narrow.into .. ".weight"})
    if kind.positions then
        local module, offset = kind.positions[1], kind.positions[2] or 0
        local section = product or embedding
        section:weight("position", p .. module .. ".weight", {positions + offset, width},
                         offset > 0 and "from " .. offset)
    end
    local function norm(section, module)
        section:norm(kind.norm, eps, kind.gain and p .. module, width, kind.plus_one and "plus_one", not kind.shift)
    end
    if kind.norm_in then norm(embedding, kind.norm_in) end
    m:layers(stack, layers, p .. kind.layer, function(at, i)
        return specs[list[i + 1].name], weights(m, kind, of, at, list[i + 1])
    end)
    if kind.last then norm(m:section(stack .. " norm"), kind.last) end
    local logits = kind.logits or {}
    logits.from = stack
    if narrow then
        m.narrowed = true
        m:head("project_out", "decoder", "all", {d_in = width, d_out = narrow.width, w = p .. narrow.out .. ".weight"})
        logits.from = "head project_out"
    end
    if kind.heads then
        kind.heads(m, does, {word = word, vocab = vocab, width = width, tied = tied, eps = eps})
    elseif does.words then
        m:logits(kind.head .. ".weight", word, vocab, narrow and narrow.width or width, tied, logits)
    elseif does.score and kind.both then
        c:wrong("architectures", "is a class of the last row, which is built for decoders%s",
                c.object.is_causal == false and ", and is_causal = false makes an encoder" or "")
    else
        m:decoder_classes(does, logits.from, narrow and narrow.width or width)
    end
    m:buffers(".*layers%.%d+%.self_attn%.rotary_emb%.inv_freq", ".*rotary_emb%.inv_freq",
              table.unpack(kind.buffers or {}))
end
