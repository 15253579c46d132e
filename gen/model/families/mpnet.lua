-- SPDX-License-Identifier: MIT
-- MPNet: RoBERTa with T5's relative positions, whose table all layers share.

local mpnet = {
    prefix = "mpnet.", types = false, first = 2, -- not what pad_token_id says
    modules = {q = "attention.attn.q", k = "attention.attn.k", v = "attention.attn.v", o = "attention.attn.o",
               ["1"] = "intermediate.dense", ["2"] = "output.dense", n1 = "attention.LayerNorm",
               n2 = "output.LayerNorm"},
    classes = {Model = "base", ForMaskedLM = "words", ForSequenceClassification = "dense classes",
               ForMultipleChoice = "pooler choice", ForTokenClassification = "tokens", ForQuestionAnswering = "spans"},
}

function mpnet.more(m, spec)
    m.config:only("relative_attention_num_buckets", 32, "transformers counts 32")
    spec:add("relative", "t5"):add("rel_buckets", 32, "of every MPNet"):add("rel_distance", 128, "of every MPNet")
end

function mpnet.weights(_, at, w)
    w.rel_bias = at:gsub("layer%.%d+%.$", "") .. "relative_attention_bias.weight"
end

return function(m) m:base("roberta")(m, mpnet) end
