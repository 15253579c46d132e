-- SPDX-License-Identifier: MIT
-- EuroBERT: Llama that sees both ways.

local function heads(m, does, of)
    if does.words then
        m:logits("lm_head.weight", of.word, of.vocab, of.width, of.tied, {
            from = "encoder", bias = m.config:flag("mlp_bias", false) and "lm_head.bias" or nil})
    elseif does.classes then
        m.config:only("classifier_pooling", "bos", "classes of the mean of all rows are not built")
        if m.config:get("classifier_pooling") == nil then
            m.config:wrong("classifier_pooling", 'is missing, which is "late"; classes of "bos" alone are built')
        end
        m:head("dense", "encoder", "first", {d_in = of.width, d_out = of.width, activation = "gelu", module = "dense"})
    end
    m:classes(does, of.width, "head dense")
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
