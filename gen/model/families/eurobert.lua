-- SPDX-License-Identifier: MIT
-- EuroBERT: Llama that sees both ways.

local function heads(m, does, of)
    if does.words then
        m:logits("lm_head.weight", of.word, of.vocab, of.width, of.tied, {
            from = "encoder", bias = m.config:flag("mlp_bias", false) and "lm_head.bias" or nil})
    elseif does.classes then
        local rows = m.config:word("classifier_pooling", {bos = "first", mean = "mean"}, "late") -- which is not built
        m:head("dense", "encoder", rows, {d_in = of.width, d_out = of.width, activation = "gelu", module = "dense"})
        m:classifier{module = "classifier", width = of.width, from = "head dense", rows = rows}
    end
    m:classes({tokens = does.tokens}, of.width)
end

return function(m)
    m.config:ignore("classifier_pooling clf_pooling mask_token")
    m:decoder{
        eps = 1e-5, both = true, heads = heads, biases = m.flagged_biases,
        classes = {Model = "", ForMaskedLM = "words", ForTokenClassification = "tokens",
                   ForSequenceClassification = "classes"},
        buffers = {"dense%..*", "classifier%..*"},
    }
end
