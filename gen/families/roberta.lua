-- SPDX-License-Identifier: MIT
-- RoBERTa, XLM-RoBERTa, CamemBERT: BERT with positions that begin behind that of padding, and heads of their own.

local function heads(m, prefix, word, vocab, width, _, eps, tied)
    m:pooler(prefix, width, width)
    if m:has("lm_head.dense.weight") then
        m:masked_words(word, vocab, width, {
            activation = "gelu", eps = eps, gain = "lm_head.layer_norm.weight", shift = "lm_head.layer_norm.bias",
            w = "lm_head.dense.weight", b = "lm_head.dense.bias", head = "lm_head.decoder.weight",
            bias = "lm_head.bias", own = "lm_head.decoder.bias", tied = tied})
    end
    local classes = m.tensors["classifier.out_proj.weight"]
    if classes then
        m:head("dense", "encoder", "first", {d_in = width, d_out = width, activation = "tanh",
                                             w = "classifier.dense.weight", b = "classifier.dense.bias"})
        m:head("classifier", "head dense", "first", {d_in = width, d_out = classes[1] or 1,
               w = "classifier.out_proj.weight", b = "classifier.out_proj.bias"})
    end
    m:classes("classifier", "encoder", "all", width)
    m:classes("qa_outputs", "encoder", "all", width)
end

return function(m)
    m:base("bert")(m, {prefix = "roberta.", padding = true, heads = heads})
end
