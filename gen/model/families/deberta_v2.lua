-- SPDX-License-Identifier: MIT
-- DeBERTa v2 and v3: BERT whose queries and keys meet vectors of distances, which products of embeddings that all
-- layers share are: of the layer's own for keys and queries with share_att_key, else of two more.

local deberta = {
    prefix = "deberta.", small = 1e-7, rows = "max_position_embeddings",
    modules = {q = "attention.self.query_proj", k = "attention.self.key_proj", v = "attention.self.value_proj",
               o = "attention.output.dense", ["1"] = "intermediate.dense", ["2"] = "output.dense",
               n1 = "attention.output.LayerNorm", n2 = "output.LayerNorm"},
    classes = {Model = "", ForMaskedLM = "words", ForSequenceClassification = "pooler classes",
               ForMultipleChoice = "pooler choice", ForTokenClassification = "tokens", ForQuestionAnswering = "spans"},
    heads_of_others = {"pooler%..*", "cls%..*", "lm_predictions%..*", "mask_predictions%..*", "classifier%..*",
                       "qa_outputs%..*"},
    idle = "pooler_dropout legacy conv_act conv_groups",
}

-- Words of a list, or of a text in which | parts them
local function words_of(c, key)
    local value, set, text = c:get(key), {}, nil
    text = type(value) == "table" and table.concat(value, "|") or value
    if text and type(text) ~= "string" then
        c:wrong(key, "is no list of words")
        text = nil
    end
    for word in (text or ""):lower():gmatch("[^|%s]+") do set[word] = true end
    return set
end

function deberta.more(m, spec, d_k)
    local c, kinds = m.config, words_of(m.config, "pos_att_type")
    local products = 1 + (kinds.c2p and 1 or 0) + (kinds.p2c and 1 or 0)
    spec:add("scale", 1 / (d_k * products) ^ 0.5, "1 over the root of d_k and of how many products a score has")
    local reach = c:get("max_relative_positions") or -1
    reach = math.type(reach) == "integer" and reach >= 1 and reach or c:size("max_position_embeddings")
    local buckets = c:get("position_buckets") or -1
    buckets = math.type(buckets) == "integer" and buckets >= 1 and buckets or nil
    deberta.vectors = c:flag("relative_attention", false) and
        {rows = 2 * (buckets or reach), c2p = kinds.c2p, p2c = kinds.p2c} or {}
    deberta.norm = words_of(c, "norm_rel_ebd").layer_norm
    local shared = c:flag("share_att_key", false)
    deberta.made = {rel_k = shared and "key_proj" or "pos_key_proj",
                    rel_q = shared and "query_proj" or "pos_query_proj"}
    if not deberta.vectors.rows or products == 1 then return end
    spec:add("rel_keys", kinds.c2p and "heads", "pos_att_type")
    spec:add("rel_queries", kinds.p2c and "heads", "pos_att_type")
    if buckets then
        spec:add("rel_rows", "log"):add("rel_buckets", buckets, "position_buckets")
        spec:add("rel_distance", reach, "max_relative_positions, or max_position_embeddings")
    else
        spec:add("rel_left", reach - 1, "max_relative_positions, or max_position_embeddings")
        spec:add("rel_right", reach)
    end
end

function deberta.weights(m, at, w, of)
    local encoder = at:match("^(.*)layer%.%d+%.$")
    for field, kind in pairs{rel_k = "c2p", rel_q = "p2c"} do
        if deberta.vectors.rows and deberta.vectors[kind] then
            w[field] = {name = encoder .. "rel_embeddings.weight", shape = {deberta.vectors.rows, of.width},
                        norm = deberta.norm and encoder .. "LayerNorm", eps = of.eps,
                        product = at .. "attention.self." .. deberta.made[field]}
        end
    end
end

function deberta.heads(m, does, of)
    local c = m.config
    if does.pooler then
        c:only("pooler_hidden_size", of.width, "the pooler is as wide as the model")
        m:pooler(does, "", of.width, of.width, c:word("pooler_hidden_act", m.activations, "gelu"))
    end
    if does.words then
        c:only("legacy", true, "the head of cls.predictions is the one that is read")
        m:masked_words(of, {dense = "cls.predictions.transform.dense", norm = "cls.predictions.transform.LayerNorm",
                            head = "cls.predictions.decoder", bias = "cls.predictions.bias"})
    end
    m:classes(does, of.width, "head pooler")
end

return function(m)
    local c = m.config
    local types = c:get("type_vocab_size")
    local conv = c:get("conv_kernel_size")
    deberta.types = types ~= nil and types ~= 0 and 0
    deberta.learned = c:flag("position_biased_input", true)
    if conv ~= nil and conv ~= 0 then
        c:wrong("conv_kernel_size", "is there, but a convolution beside the first layer is not built; 0 is read")
    end
    for _, key in ipairs{"embedding_size", "attention_head_size"} do
        local right = c:size("hidden_size") // (key == "embedding_size" and 1 or c:size("num_attention_heads"))
        c:only(key, right, "another width is not read")
    end
    c:ignore("pooler_hidden_size pooler_hidden_act max_relative_positions position_buckets norm_rel_ebd " ..
             "share_att_key pos_att_type relative_attention position_biased_input type_vocab_size")
    m:base("bert")(m, deberta)
    m:buffers(".*encoder%.LayerNorm%..*", ".*encoder%.rel_embeddings%..*") -- of a model without relative_attention
end
