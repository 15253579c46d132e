-- SPDX-License-Identifier: MIT
-- RoBERTa, XLM-RoBERTa, CamemBERT: BERT with positions that begin behind that of padding, and heads of their own.

local classes = {
    Model = "base", ForMaskedLM = "words", ForCausalLM = "words", ForSequenceClassification = "dense classes",
    ForMultipleChoice = "pooler choice", ForTokenClassification = "tokens", ForQuestionAnswering = "spans",
}

local function heads(m, does, prefix, word, vocab, width, _, eps, tied)
    m:pooler(does, prefix, width, width)
    if does.words then
        m:masked_words(word, vocab, width, {
            activation = "gelu", eps = eps, gain = "lm_head.layer_norm.weight", shift = "lm_head.layer_norm.bias",
            w = "lm_head.dense.weight", b = "lm_head.dense.bias", head = "lm_head.decoder.weight",
            bias = "lm_head.bias", own = "lm_head.decoder.bias", tied = tied})
    end
    if does.dense then
        m:head("dense", "encoder", "first", {d_in = width, d_out = width, activation = "tanh",
                                             w = "classifier.dense.weight", b = "classifier.dense.bias"})
    end
    m:classes(does, width, does.dense and "head dense" or "head pooler", does.dense and "classifier.out_proj")
end

return function(m)
    m:base("bert")(m, {prefix = "roberta.", padding = true, heads = heads, classes = classes})
end
