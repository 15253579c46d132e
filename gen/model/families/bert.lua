-- SPDX-License-Identifier: MIT
-- BERT, and what is built like it: MiniLM, MPNet's students, E5, BGE, GTE of the first kind. roberta.lua says what is
-- different there.

-- The norms of old checkpoints have TensorFlow's names.
local function norm_names(m, module)
    local old = m:has(module .. ".gamma")
    return module .. (old and ".gamma" or ".weight"), module .. (old and ".beta" or ".bias")
end

local function weights(m, at)
    local w = {}
    for ours, name in pairs{q = "attention.self.query", k = "attention.self.key", v = "attention.self.value",
                            o = "attention.output.dense", ["1"] = "intermediate.dense", ["2"] = "output.dense"} do
        w["w_" .. ours], w["b_" .. ours] = at .. name .. ".weight", at .. name .. ".bias"
    end
    w.n1_g, w.n1_b = norm_names(m, at .. "attention.output.LayerNorm")
    w.n2_g, w.n2_b = norm_names(m, at .. "output.LayerNorm")
    return w
end

local classes = {
    Model = "base", ForPreTraining = "pooler words next", ForMaskedLM = "words", LMHeadModel = "words",
    ForNextSentencePrediction = "pooler next", ForSequenceClassification = "pooler classes",
    ForMultipleChoice = "pooler choice", ForTokenClassification = "tokens", ForQuestionAnswering = "spans",
}

local function heads(m, does, prefix, word, vocab, width, activation, eps, tied)
    m:pooler(does, prefix, width, width)
    local at = "cls.predictions."
    if does.words then
        local gain, shift = norm_names(m, at .. "transform.LayerNorm")
        m:masked_words(word, vocab, width, {
            activation = activation, eps = eps, gain = gain, shift = shift, head = at .. "decoder.weight",
            w = at .. "transform.dense.weight", b = at .. "transform.dense.bias", bias = at .. "bias",
            own = at .. "decoder.bias", tied = tied})
    end
    m:classes(does, width, "head pooler")
end

-- `kind` is what differs in other families: prefix, first position, padding, heads(m, …) of classes.
return function(m, kind)
    kind = kind or {prefix = "bert.", padding = false, heads = heads, classes = classes}
    local does = m:class(kind.classes, {".*pooler%.dense%..*", "cls%..*", "lm_head%..*", "classifier%..*",
                                        "qa_outputs%..*"}, "Model")
    local c = m.config
    local width, layers = c:size("hidden_size"), c:layers("num_hidden_layers")
    local vocab, types = c:size("vocab_size"), c:size("type_vocab_size", 2)
    local rows, eps = c:size("max_position_embeddings"), c:number("layer_norm_eps", 1e-12, 1)
    local activation = c:word("hidden_act", m.activations, "gelu")
    local first = kind.padding and c:size("pad_token_id", 1, 0) + 1 or 0 -- the row of the first token's position
    c:only("position_embedding_type", "absolute", "relative ones are a term of the scores that attngen does not have")
    c:only("embedding_size", width, "a smaller one is projected")
    local tied = c:flag("tie_word_embeddings", true)
    c:ignore("pooler_fc_size pooler_type pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head")
    if first >= rows then
        c:wrong("max_position_embeddings", "is %d; more than pad_token_id + 1 = %d is needed", rows, first)
        rows = first + 1
    end
    local seq = m:lengths(rows - first, true)

    local spec = m:spec("layer", "A layer with norms behind attention and feed-forward")
    spec:add("d_model", width, "hidden_size"):add("h", c:size("num_attention_heads"), "num_attention_heads")
    spec:add("seq_len", seq, "max_position_embeddings" .. (first > 0 and " without the first " .. first or "") ..
             ", or --seq-len")
    spec:add("mask", "padding"):add("pad_rows", "skipped", "rows from lengths[b] on are 0; computed: undefined")
    spec:add("bias", "true"):add("weight_layout", "out_in")
    spec:add("block", "post"):add("norm", "layer"):add("norm_eps", eps, "layer_norm_eps")
    spec:add("ffn", activation, "hidden_act"):add("d_ff", c:size("intermediate_size"), "intermediate_size")
    spec.out_in = true

    local p = m:prefix({kind.prefix, ""}, "embeddings.word_embeddings.weight")
    local word = p .. "embeddings.word_embeddings.weight"
    m:say("d_model", width)
    m:section("encoder input"):add("kind", "tokens"):add("needs", "ids types lengths"):add("vocab", vocab)
        :add("types", types):add("seq_len", seq)
    local embedding = m:section("encoder embedding"):weight("word", word, {vocab, width})
    embedding:weight("position", p .. "embeddings.position_embeddings.weight", {rows, width},
                     first > 0 and "from " .. first)
    embedding:weight("type", p .. "embeddings.token_type_embeddings.weight", {types, width})
    local gain, shift = norm_names(m, p .. "embeddings.LayerNorm")
    embedding:norm("layer", eps, gain, shift, width)
    for i = 0, layers - 1 do
        m:layer("encoder", i, spec, weights(m, ("%sencoder.layer.%d."):format(p, i)))
    end
    kind.heads(m, does, p, word, vocab, width, activation, eps, tied)
    m:buffers(".*embeddings%.position_ids", ".*embeddings%.token_type_ids")
end
