-- SPDX-License-Identifier: MIT
-- BERT, and what is built like it: MiniLM, MPNet's students, E5, BGE, GTE of the first kind. The files of RoBERTa,
-- DistilBERT, MPNet, ELECTRA, ALBERT, XLM-RoBERTa-XL and Nomic's say what is different there:
--   prefix     of the tensors of a model with a head
--   keys       of config.json: width, h, layers, d_ff, activation, rows, eps (nil: it has none, and EPS counts)
--   eps        what a spec says of EPS. small: in place of EPS
--   types      whether tokens have types: false, or how many where config.json does not say
--   padding    whether positions begin after that of padding; first: the first one's row. learned: whether they are
--   narrow     the module that makes rows of the model of words embedding_size wide; always: where that is as wide too
--   head_norm  module of the norm of masked words
--   block      pre: norms before the parts, and the module `last` after the last layer. norm_in: that of the
--              embedding's norm; false: it has none
--   unbiased   of layers. more(m, spec, d_k): keys of a spec. weights(m, at, w, of): other tensors of a layer
--   at         function(i) → layer i's names begin so, from 0 on
--   modules    those of a layer, after `layer`, by the letters of a spec's tensors
--   classes, heads(m, does, of)   what a class computes, and its heads; heads_of_others: their tensors
--   idle       keys that change nothing

local EPS = 1e-12 -- of every norm where config.json does not say it

local bert = {
    prefix = "bert.", types = 2, small = EPS, padding = false, layer = "encoder.layer.%d.", learned = true,
    block = "post", norm_in = "embeddings.LayerNorm", head_norm = "LayerNorm", gates = false, gelu = "gelu",
    keys = {width = "hidden_size", h = "num_attention_heads", layers = "num_hidden_layers", d_ff = "intermediate_size",
            activation = "hidden_act", eps = "layer_norm_eps"},
    modules = {q = "attention.self.query", k = "attention.self.key", v = "attention.self.value",
               o = "attention.output.dense", ["1"] = "intermediate.dense", ["2"] = "output.dense",
               n1 = "attention.output.LayerNorm", n2 = "output.LayerNorm"},
    classes = {Model = "base", ForPreTraining = "pooler words next", ForMaskedLM = "words", LMHeadModel = "words",
               ForNextSentencePrediction = "pooler next", ForSequenceClassification = "pooler classes",
               ForMultipleChoice = "pooler choice", ForTokenClassification = "tokens", ForQuestionAnswering = "spans"},
    heads_of_others = {".*pooler%.dense%..*", "cls%..*", "lm_head%..*", "classifier%..*", "qa_outputs%..*"},
    idle = "pooler_fc_size pooler_type pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head " ..
        "cell emb_size pre_trained structure training",
}

function bert.heads(m, does, of)
    m:pooler(does, of.prefix, of.width, of.width)
    if does.words then
        local at = "cls.predictions."
        m:masked_words(of, {dense = at .. "transform.dense", norm = at .. "transform." .. of.head_norm,
                            head = at .. "decoder", bias = at .. "bias"})
    end
    m:classes(does, of.width, "head pooler")
end

return function(m, other)
    local kind = setmetatable(other or {}, {__index = bert})
    local c, keys = m.config, kind.keys
    local does = m:class(kind.classes, kind.heads_of_others, "Model")
    local width, layers, vocab = c:size(keys.width), c:layers(keys.layers), c:size("vocab_size")
    local types = kind.types and c:size("type_vocab_size", kind.types)
    local rows_key = keys.rows or "max_position_embeddings"
    local rows, eps = c:size(rows_key), keys.eps and c:number(keys.eps, kind.small, 1) or EPS
    local activation = c:word(keys.activation, kind.gates or m.activations, kind.gelu)
    -- the row of the first token's position
    local first = kind.padding and (kind.first or c:size("pad_token_id", 1, 0) + 1) or 0
    local narrow = kind.narrow and c:size("embedding_size", 128) or width
    if kind.types then
        c:only("position_embedding_type", "absolute", "relative ones are a term of the scores that attngen does not " ..
               "have")
        c:only("embedding_size", narrow, "a smaller one is projected")
    end
    local tied = c:flag("tie_word_embeddings", true)
    c:ignore(kind.idle .. " is_causal")
    if first >= rows then
        c:wrong(rows_key, "is %d; more than pad_token_id + 1 = %d is needed", rows, first)
        rows = first + 1
    end
    local seq = m:lengths(rows - first, true)

    local h = c:size(keys.h)
    local spec = m:spec("layer", "A layer with norms " .. (kind.block == "pre" and "before" or "behind") ..
                        " attention and feed-forward")
    spec:add("d_model", width, keys.width):add("h", h, keys.h)
    spec:add("seq_len", seq, m.seq_of or rows_key .. (first > 0 and " without the first " .. first or "") ..
             ", or --seq-len")
    spec:padding():add("bias", not kind.unbiased and "true" or "false"):weights_lie("out_in")
    if kind.more then kind.more(m, spec, width // h) end
    spec:block(kind.block, "layer", eps, keys.eps or kind.eps)
    spec:add("ffn", activation, keys.activation):add("d_ff", c:size(keys.d_ff), keys.d_ff)

    local inner = c:size(keys.d_ff)
    local p = m:prefix({kind.prefix, ""}, "embeddings.word_embeddings.weight")
    local word = p .. "embeddings.word_embeddings.weight"
    m:input("encoder", "tokens", kind.types and "ids types lengths" or "ids lengths", width):add("vocab", vocab)
        :add("types", types or nil):add("seq_len", seq)
    local embedding = m:section("encoder embedding"):weight("word", word, {vocab, narrow})
    if kind.learned then
        embedding:weight("position", p .. "embeddings.position_embeddings.weight", {rows, narrow},
                         first > 0 and "from " .. first)
    end
    if types then
        embedding:weight("type", p .. "embeddings.token_type_embeddings.weight", {types, narrow})
    end
    if kind.norm_in then embedding:norm("layer", eps, p .. kind.norm_in, narrow) end
    if narrow ~= width or kind.always then
        m:projection("encoder", {d_in = narrow, d_out = width, module = p .. kind.narrow})
    end
    m:layers("encoder", layers, p .. kind.layer, function(at, i)
        at = kind.at and p .. kind.at(m, i, layers) or at
        local w = m:modules(at, kind.modules, kind.unbiased)
        if kind.weights then kind.weights(m, at, w, {width = width, d_ff = inner, eps = eps}) end
        return spec, w
    end)
    if kind.last then m:section("encoder norm"):norm("layer", eps, p .. kind.last, width) end
    kind.heads(m, does, {prefix = p, word = word, vocab = vocab, width = width, eps = eps, tied = tied, narrow = narrow,
                         activation = m.plain[activation] or activation, head_norm = kind.head_norm})
    m:buffers(".*embeddings%.position_ids", kind.types and ".*embeddings%.token_type_ids" or nil)
end
