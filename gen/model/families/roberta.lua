-- SPDX-License-Identifier: MIT
-- RoBERTa, XLM-RoBERTa, CamemBERT: BERT with positions that begin after that of padding, and heads of their own.
-- MPNet and XLM-RoBERTa XL have these from here.

local roberta = {prefix = "roberta.", padding = true}
roberta.classes = {
    Model = "base", ForMaskedLM = "words", ForCausalLM = "words", ForSequenceClassification = "dense classes",
    ForMultipleChoice = "pooler choice", ForTokenClassification = "tokens", ForQuestionAnswering = "spans",
}

function roberta.heads(m, does, of)
    m:pooler(does, of.prefix, of.width, of.width)
    if does.words then
        of.activation = "gelu"
        m:masked_words(of, {dense = "lm_head.dense", norm = "lm_head.layer_norm", head = "lm_head.decoder",
                            bias = "lm_head.bias"})
    end
    if does.dense then
        m:head("dense", "encoder", "first", {d_in = of.width, d_out = of.width, activation = "tanh",
                                             module = "classifier.dense"})
    end
    m:classes(does, of.width, does.dense and "head dense" or "head pooler", does.dense and "classifier.out_proj")
end

return function(m, other)
    for key, value in pairs(other or {}) do
        roberta[key] = value
    end
    m:base("bert")(m, roberta)
end
