-- SPDX-License-Identifier: MIT
-- EuroBERT: Llama that sees both ways.

local function heads(m, does, of)
    if does.words then
        m:logits("lm_head.weight", of.word, of.vocab, of.width, of.tied, {
            from = "encoder", bias = m.config:flag("mlp_bias", false) and "lm_head.bias" or nil})
    elseif does.tokens then
        m:head("classifier", "encoder", "all", {d_in = of.width, d_out = m:labels(), module = "classifier"})
    end
end

return function(m)
    m.config:ignore("classifier_pooling clf_pooling mask_token")
    m:decoder{
        eps = 1e-5, both = true, heads = heads, biases = m.flagged_biases,
        classes = {Model = "", ForMaskedLM = "words", ForTokenClassification = "tokens"},
        buffers = {"dense%..*", "classifier%..*"},
    }
end
