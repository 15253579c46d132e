-- SPDX-License-Identifier: MIT
-- ModernBERT: an encoder as Llama's layers, with layer norms without shift, none before the first attention, windows in
-- two layers of three, and there another rope_theta; q, k and v out of one matrix, gate and values out of another.

local function heads(m, does, of)
    local c = m.config
    local activation, biased = c:word("classifier_activation", m.activations, "gelu"), c:flag("classifier_bias", false)
    local bias, shift = c:flag("decoder_bias", true), c:flag("norm_bias", false)
    local one = does.classes or does.choice
    local rows = one and c:word("classifier_pooling", {cls = "first", mean = "mean"}, "cls") or "all"
    if next(does) then
        m:head("transform", "encoder", rows, {
            d_in = of.width, d_out = of.width, activation = activation, w = "head.dense.weight",
            b = biased and "head.dense.bias" or nil}, function(section)
            section:norm("layer", of.eps, "head.norm", of.width, nil, not shift)
        end)
    end
    if does.words then
        m:logits("decoder.weight", of.word, of.vocab, of.width, of.tied,
                 {from = "head transform", bias = bias and "decoder.bias" or nil})
    elseif one or does.tokens then
        m:classifier{module = "classifier", width = of.width, from = "head transform", rows = rows,
                     count = does.choice and 1 or nil, name = does.spans and "qa_outputs"}
    end
end

return function(m)
    local c = m.config
    local every, reach = c:size("global_attn_every_n_layers", 3), c:size("local_attention", 128) // 2
    c:ignore("initializer_cutoff_factor deterministic_flash_attn sparse_prediction sparse_pred_ignore_index " ..
             "mlp_dropout reference_compile repad_logits_with_grad layer_norm_eps position_embedding_type " ..
             "classifier_pooling")
    c:only("rope_scaling", nil, "it would be of both kinds of layers; write rope_parameters with both")
    m:decoder{
        keys = {eps = "norm_eps", act = "hidden_activation", h_kv = false, d_k = false}, eps = 1e-5, norm = "layer",
        shift = c:flag("norm_bias", false), both = true, act = "gelu", tied = true, heads = heads,
        classes = {Model = "", ForMaskedLM = "words", ForSequenceClassification = "classes",
                   ForTokenClassification = "tokens",
                   ForQuestionAnswering = "tokens spans", ForMultipleChoice = "choice"},
        head = "decoder", word = "embeddings.tok_embeddings", norm_in = "embeddings.norm", last = "final_norm",
        norms = {n1 = "attn_norm", n2 = "mlp_norm"}, attention = {o = "attn.Wo"}, ffn_modules = {["2"] = "mlp.Wo"},
        biases = m.flagged_biases, bare = function(i) return i == 0 end, window_key = "half of local_attention",
        windows = function(_, layers)
            local _, list = m:windows(layers, reach, function(i) return i % every ~= 0 end)
            return reach, list
        end,
        fused = function(_, w, at, of)
            m:split(w, at .. "attn.Wqkv", {{"q", of.width}, {"k", of.width}, {"v", of.width}}, not of.bias)
            m:split(w, at .. "mlp.Wi", {{"g", of.d_ff}, {"1", of.d_ff}}, not of.ffn_bias)
        end,
        rope = m:ropes({"local_rope_theta", 10000}, {"global_rope_theta", 160000}),
        buffers = {"head%..*", "classifier%..*"},
    }
end
