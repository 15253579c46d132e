-- SPDX-License-Identifier: MIT
-- DistilBERT: BERT's layer under other names, without token types.

local EPS = 1e-12 -- of every norm; config.json does not say it

local function weights(at)
    local w = {}
    for ours, name in pairs{q = "attention.q_lin", k = "attention.k_lin", v = "attention.v_lin",
                            o = "attention.out_lin", ["1"] = "ffn.lin1", ["2"] = "ffn.lin2"} do
        w["w_" .. ours], w["b_" .. ours] = at .. name .. ".weight", at .. name .. ".bias"
    end
    w.n1_g, w.n1_b = at .. "sa_layer_norm.weight", at .. "sa_layer_norm.bias"
    w.n2_g, w.n2_b = at .. "output_layer_norm.weight", at .. "output_layer_norm.bias"
    return w
end

local classes = {
    Model = "", ForMaskedLM = "words", ForSequenceClassification = "classes", ForMultipleChoice = "choice",
    ForTokenClassification = "tokens", ForQuestionAnswering = "spans",
}

local function heads(m, does, word, vocab, width, activation, tied)
    if does.words then
        m:masked_words(word, vocab, width, {
            activation = activation, eps = EPS, gain = "vocab_layer_norm.weight", shift = "vocab_layer_norm.bias",
            w = "vocab_transform.weight", b = "vocab_transform.bias", head = "vocab_projector.weight",
            bias = "vocab_projector.bias", tied = tied})
    end
    if does.classes or does.choice then
        m:head("dense", "encoder", "first", {d_in = width, d_out = width, activation = "relu",
                                             w = "pre_classifier.weight", b = "pre_classifier.bias"})
    end
    m:classes(does, width, "head dense")
end

return function(m)
    local c = m.config
    local does = m:class(classes, {"vocab_.*", "pre_classifier%..*", "classifier%..*", "qa_outputs%..*"}, "Model")
    local width, layers, vocab = c:size("dim"), c:layers("n_layers"), c:size("vocab_size")
    local positions = c:size("max_position_embeddings")
    local activation = c:word("activation", m.activations, "gelu")
    local tied = c:flag("tie_word_embeddings", true)
    c:ignore("sinusoidal_pos_embds tie_weights_")
    local seq = m:lengths(positions, true)

    local spec = m:spec("layer", "A layer with norms behind attention and feed-forward")
    spec:add("d_model", width, "dim"):add("h", c:size("n_heads"), "n_heads")
    spec:add("seq_len", seq, "max_position_embeddings, or --seq-len")
    spec:add("mask", "padding"):add("pad_rows", "skipped", "rows from lengths[b] on are 0; computed: undefined")
    spec:add("bias", "true"):add("weight_layout", "out_in")
    spec:add("block", "post"):add("norm", "layer"):add("norm_eps", EPS, "of every DistilBERT")
    spec:add("ffn", activation, "activation"):add("d_ff", c:size("hidden_dim"), "hidden_dim")
    spec.out_in = true

    local p = m:prefix({"distilbert.", ""}, "embeddings.word_embeddings.weight")
    local word = p .. "embeddings.word_embeddings.weight"
    m:say("d_model", width)
    m:section("encoder input"):add("kind", "tokens"):add("needs", "ids lengths"):add("vocab", vocab):add("seq_len", seq)
    m:section("encoder embedding"):weight("word", word, {vocab, width})
        :weight("position", p .. "embeddings.position_embeddings.weight", {positions, width})
        :norm("layer", EPS, p .. "embeddings.LayerNorm.weight", p .. "embeddings.LayerNorm.bias", width)
    for i = 0, layers - 1 do
        m:layer("encoder", i, spec, weights(("%stransformer.layer.%d."):format(p, i)))
    end
    heads(m, does, word, vocab, width, activation, tied)
    m:buffers(".*embeddings%.position_ids")
end
