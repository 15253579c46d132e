-- SPDX-License-Identifier: MIT
-- ELECTRA: BERT whose words are narrower than the model where embedding_size says so, and heads of its own: whether a
-- word was replaced, and words of the generator.

local electra = {
    prefix = "electra.", narrow = "embeddings_project", idle = "summary_type summary_use_proj summary_activation " ..
        "summary_last_dropout",
    classes = {Model = "", ForPreTraining = "replaced", ForMaskedLM = "words",
               ForCausalLM = "words", ForMultipleChoice = "choice",
               ForSequenceClassification = "dense classes", ForTokenClassification = "tokens",
               ForQuestionAnswering = "spans"},
    heads_of_others = {"discriminator_predictions%..*", "generator_.*", "classifier%..*", "qa_outputs%..*",
                       "sequence_summary%..*"},
}

function electra.heads(m, does, of)
    if does.replaced then
        m:head("transform", "encoder", "all", {d_in = of.width, d_out = of.width, activation = of.activation,
                                               module = "discriminator_predictions.dense"})
        m:head("replaced", "head transform", "all", {d_in = of.width, d_out = 1,
                                                     module = "discriminator_predictions.dense_prediction"})
    end
    if does.words then
        of.activation = "gelu"
        m:masked_words(of, {dense = "generator_predictions.dense", norm = "generator_predictions.LayerNorm",
                            head = "generator_lm_head", bias = "generator_lm_head.bias"})
    end
    if does.dense then
        m:head("dense", "encoder", "first", {d_in = of.width, d_out = of.width, activation = "gelu",
                                             module = "classifier.dense"})
    end
    if does.choice then
        local c = m.config
        local activation = c:get("summary_activation") and c:word("summary_activation", m.activations) or
                           c.object.summary_activation == nil and "gelu" or nil
        c:only("summary_type", "first", "the first row is the one that is read")
        c:only("summary_use_proj", true, "the row is multiplied by a matrix")
        m:head("summary", "encoder", "first", {d_in = of.width, d_out = of.width, activation = activation,
                                               module = "sequence_summary.summary"})
    end
    m:classes(does, of.width, does.choice and "head summary" or "head dense", does.dense and "classifier.out_proj")
end

return function(m) m:base("bert")(m, electra) end
