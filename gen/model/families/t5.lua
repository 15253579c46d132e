-- SPDX-License-Identifier: MIT
-- T5 and Flan-T5: rms norms before each part, no biases, scores without scale and with a learned number for each
-- distance, whose table stands in the first layer of a stack. A decoder's layer is two of ours: self-attention without
-- a feed-forward, then cross-attention with one.

-- What feed_forward_proj makes of is_gated_act and dense_act_fn where config.json does not have them
local function parts(m)
    local of = {}
    for name in pairs(m.activations) do
        of[name] = {false, name}
        of["gated-" .. name] = m.gated[name] and {true, name == "gelu" and "gelu_new" or name}
    end
    return of
end

local function feed_forward(m, at, gated)
    return m:modules(at, {n2 = "layer_norm", g = gated and "DenseReluDense.wi_0" or nil,
                          ["1"] = gated and "DenseReluDense.wi_1" or "DenseReluDense.wi", ["2"] = "DenseReluDense.wo"},
                     true)
end

-- `name`: of the attention; w: tensors of other parts. Self-attention has the table of its stack's first layer.
local function attention(m, at, name, w)
    w = m:modules(at, {n1 = "layer_norm", q = name .. ".q", k = name .. ".k", v = name .. ".v", o = name .. ".o"}, true,
                  w)
    if name == "SelfAttention" then
        w.rel_bias = at:gsub("%d+", "0") .. "SelfAttention.relative_attention_bias.weight"
    end
    return w
end

local classes = {Model = "decoder", ForConditionalGeneration = "decoder words", EncoderModel = "",
                 ForSequenceClassification = "decoder score", ForQuestionAnswering = "decoder spans",
                 ForTokenClassification = "tokens"}

return function(m)
    local c, mt5 = m.config, m.kind == "mt5" -- whose logits are not scaled
    classes.WithLMHeadModel = not mt5 and "decoder words published" or nil -- of the first releases
    local does = m:class(classes, {"lm_head%..*", "classification_head%..*", "qa_outputs%..*", "classifier%..*"})
    local width, layers, vocab, eps = c:size("d_model"), c:layers("num_layers"), c:size("vocab_size"),
        c:number("layer_norm_epsilon", 1e-6, 1)
    local deep = c:layers("num_decoder_layers", false) or layers
    local h, d_k, inner = c:size("num_heads"), c:size("d_kv"), c:size("d_ff")
    local buckets = c:size("relative_attention_num_buckets", 32)
    local distance = c:size("relative_attention_max_distance", 128)
    local part = c:word("feed_forward_proj", parts(m), mt5 and "gated-gelu" or "relu")
    local gated = c:flag("is_gated_act", part[1])
    part = c:word("dense_act_fn", gated and m.gated or m.activations, part[2])
    local scaled = not mt5 and c:flag("scale_decoder_outputs", c:get("tie_word_embeddings") ~= false)
    c:ignore("tie_word_embeddings")
    local positions = c:size("n_positions", 512)
    if does.decoder then c:only("is_encoder_decoder", true, "the class has both stacks") end
    c:ignore("is_encoder_decoder")
    local seq, all, cache = m:lengths(positions, false, does.decoder)
    local far = m.options.seq_len or positions -- tokens of the encoder

    local function start(kind, about)
        local spec = m:spec(kind, about):add("d_model", width, "d_model"):add("h", h, "num_heads")
        return spec:add("d_k", d_k, "d_kv"):add("d_v", d_k, "d_kv")
    end
    local function scores(spec, relative)
        spec:add("scale", 1, "of every T5")
        if relative then
            spec:add("relative", "t5"):add("rel_buckets", buckets, "relative_attention_num_buckets")
            spec:add("rel_distance", distance, "relative_attention_max_distance")
        end
        spec:weights_lie("out_in"):block("pre", "rms", eps, "layer_norm_epsilon")
    end
    local function feed(spec)
        spec:add("ffn", part, "dense_act_fn and is_gated_act, or feed_forward_proj"):add("d_ff", inner, "d_ff")
    end
    local first = start("encoder", "A layer with norms before attention and feed-forward")
    first:add("seq_len", far, "n_positions, or --seq-len"):padding()
    scores(first, true)
    feed(first)

    -- The stacks share a table where the file has none of their own.
    local p = m:prefix({"", "transformer."}, "encoder.final_layer_norm.weight")
    local shared = p .. "shared.weight"
    local function table_of(stack)
        local own = p .. stack .. ".embed_tokens.weight"
        return m:has(own) and own or m:has(shared) and shared or p .. "encoder.embed_tokens.weight"
    end
    m:input("encoder", "tokens", "ids lengths", width):add("vocab", vocab):add("seq_len", far)
    m:section("encoder embedding"):weight("word", table_of("encoder"), {vocab, width})
    m:layers("encoder", layers, p .. "encoder.block.%d.layer.", function(at)
        return first, attention(m, at .. "0.", "SelfAttention", feed_forward(m, at .. "1.", gated))
    end)
    m:section("encoder norm"):norm("rms", eps, p .. "encoder.final_layer_norm", width)
    m:buffers(".*shared%.weight") -- where each stack has its own
    if not does.decoder then
        m:buffers(".*decoder%..*")
        m:classes(does, width)
        return
    end
    local self = start("decoder_self", "Self-attention with a norm before it")
    m:cache(self, seq, all, cache)
    m:causal(self)
    scores(self, true)
    local cross = start("decoder_cross", "Attention to the encoder's rows and a feed-forward, with norms before both")
    cross:add("attention", "cross"):add("seq_len", seq, "maximum of tokens in a call")
    cross:add("source_len", far, "the encoder's")
    cross:add("source_kept", "true", "keys and values of a source serve all later calls")
    cross:add("mask", "padding", "lengths are those of the encoder's call")
    scores(cross, false)
    feed(cross)
    m:input("decoder", "tokens", m:needs(cache, true), width):add("vocab", vocab):add("seq_len", seq)
    m:section("decoder embedding"):weight("word", table_of("decoder"), {vocab, width})
    m:layers("decoder", deep, p .. "decoder.block.%d.layer.", function(at)
        m:layer("decoder", self, attention(m, at .. "0.", "SelfAttention"))
        return cross, attention(m, at .. "1.", "EncDecAttention", feed_forward(m, at .. "2.", gated)),
               {{"source", "encoder"}}
    end)
    m:section("decoder norm"):norm("rms", eps, p .. "decoder.final_layer_norm", width)
    if does.words then
        local word = m:has(shared) and shared or table_of("encoder")
        m:logits("lm_head.weight", word, vocab, width, true, {scale = scaled and 1 / math.sqrt(width) or nil})
    end
    m:both_classes(does, width)
    m:buffers(".*decoder%.block%.0%.layer%.1%.EncDecAttention%.relative_attention_bias%.weight") -- no model reads it
end
