-- SPDX-License-Identifier: MIT
-- RoBERTa, XLM-RoBERTa, CamemBERT: BERT with positions that begin behind that of padding, and heads of their own.

local function heads(m, prefix, word, vocab, width, _, eps)
    if m:has(prefix .. "pooler.dense.weight") then
        local section = m:section("head pooler"):add("from", "encoder"):add("rows", "first")
        section:weight("w", prefix .. "pooler.dense.weight", {width, width}, "out_in")
        section:weight("b", prefix .. "pooler.dense.bias", {width}):add("activation", "tanh")
    end
    if m:has("lm_head.dense.weight") then
        local section = m:section("head transform"):add("from", "encoder"):add("rows", "all")
        section:weight("w", "lm_head.dense.weight", {width, width}, "out_in")
        section:weight("b", "lm_head.dense.bias", {width}):add("activation", "gelu")
        section:norm("layer", eps, "lm_head.layer_norm.weight", "lm_head.layer_norm.bias", width)
        m:logits("lm_head.decoder.weight", word, vocab, width, true, {from = "head transform", bias = "lm_head.bias"})
        m:buffers("lm_head%.decoder%.bias") -- the same numbers as the other bias
    end
    local classes = m.tensors["classifier.out_proj.weight"]
    if classes then
        local section = m:section("head dense"):add("from", "encoder"):add("rows", "first")
        section:weight("w", "classifier.dense.weight", {width, width}, "out_in")
        section:weight("b", "classifier.dense.bias", {width}):add("activation", "tanh")
        section = m:section("head classifier"):add("from", "head dense"):add("rows", "first")
        section:weight("w", "classifier.out_proj.weight", {classes[1] or 1, width}, "out_in")
        section:weight("b", "classifier.out_proj.bias", {classes[1] or 1})
    end
    for _, name in ipairs{"classifier", "qa_outputs"} do
        classes = m.tensors[name .. ".weight"]
        if classes then
            local section = m:section("head " .. name):add("from", "encoder"):add("rows", "all")
            section:weight("w", name .. ".weight", {classes[1] or 1, width}, "out_in")
            section:weight("b", name .. ".bias", {classes[1] or 1})
        end
    end
end

return function(m)
    m:base("bert")(m, {prefix = "roberta.", padding = true, heads = heads})
end
