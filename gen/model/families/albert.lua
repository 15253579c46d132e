-- SPDX-License-Identifier: MIT
-- ALBERT: BERT whose layers are one, or a few groups of one, and whose words are narrower than the model.

local albert = {
    prefix = "albert.", narrow = "encoder.embedding_hidden_mapping_in", always = true, gelu = "gelu_new",
    modules = {q = "attention.query", k = "attention.key", v = "attention.value", o = "attention.dense", ["1"] = "ffn",
               ["2"] = "ffn_output", n1 = "attention.LayerNorm", n2 = "full_layer_layer_norm"},
    classes = {Model = "base", ForPreTraining = "pooler words order", ForMaskedLM = "words",
               ForSequenceClassification = "pooler classes", ForMultipleChoice = "pooler choice",
               ForTokenClassification = "tokens", ForQuestionAnswering = "spans"},
    heads_of_others = {".*pooler%..*", "predictions%..*", "sop_classifier%..*", "classifier%..*", "qa_outputs%..*"},
    idle = "classifier_dropout_prob down_scale_factor gap_size net_structure_type num_memory_blocks layers_to_keep",
}

function albert.at(m, i, layers)
    local groups = m.config:size("num_hidden_groups", 1)
    m.config:only("inner_group_num", 1, "groups of several layers are not read")
    return ("encoder.albert_layer_groups.%d.albert_layers.0."):format(i * groups // layers)
end

function albert.heads(m, does, of)
    if does.pooler or does.base and m:has(of.prefix .. "pooler.weight") then
        m:head("pooler", "encoder", "first", {d_in = of.width, d_out = of.width, activation = "tanh",
                                              module = of.prefix .. "pooler"})
    end
    if does.words then
        m:masked_words(of, {dense = "predictions.dense", norm = "predictions.LayerNorm", head = "predictions.decoder",
                            bias = "predictions.bias"})
    end
    if does.order then
        m:head("order", "head pooler", "first", {d_in = of.width, d_out = m:labels(),
                                                 module = "sop_classifier.classifier"})
    end
    m:classes(does, of.width, "head pooler")
end

return function(m) m:base("bert")(m, albert) end
