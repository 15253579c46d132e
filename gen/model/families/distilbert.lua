-- SPDX-License-Identifier: MIT
-- DistilBERT: BERT's layer under other names, without token types.

local distilbert = {
    prefix = "distilbert.", types = false, eps = "of every DistilBERT", layer = "transformer.layer.%d.",
    keys = {width = "dim", h = "n_heads", layers = "n_layers", d_ff = "hidden_dim", activation = "activation"},
    modules = {q = "attention.q_lin", k = "attention.k_lin", v = "attention.v_lin", o = "attention.out_lin",
               ["1"] = "ffn.lin1", ["2"] = "ffn.lin2", n1 = "sa_layer_norm", n2 = "output_layer_norm"},
    classes = {Model = "", ForMaskedLM = "words", ForSequenceClassification = "classes", ForMultipleChoice = "choice",
               ForTokenClassification = "tokens", ForQuestionAnswering = "spans"},
    heads_of_others = {"vocab_.*", "pre_classifier%..*", "classifier%..*", "qa_outputs%..*"},
    idle = "sinusoidal_pos_embds tie_weights_",
}

function distilbert.heads(m, does, of)
    if does.words then
        m:masked_words(of, {dense = "vocab_transform", norm = "vocab_layer_norm", head = "vocab_projector",
                            bias = "vocab_projector.bias"})
    end
    if does.classes or does.choice then
        m:head("dense", "encoder", "first", {d_in = of.width, d_out = of.width, activation = "relu",
                                             module = "pre_classifier"})
    end
    m:classes(does, of.width, "head dense")
end

return function(m) m:base("bert")(m, distilbert) end
