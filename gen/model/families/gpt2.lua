-- SPDX-License-Identifier: MIT
-- GPT-2, and DistilGPT-2: matrices lie [in][out], those of queries, keys and values side by side.

local function weights(m, at, width)
    local w = m:modules(at, {o = "attn.c_proj", ["1"] = "mlp.c_fc", ["2"] = "mlp.c_proj", n1 = "ln_1", n2 = "ln_2"})
    for i, ours in ipairs{"q", "k", "v"} do
        w["w_" .. ours] = m:columns(at .. "attn.c_attn.weight", (i - 1) * width, i * width, 3 * width)
        w["b_" .. ours] = m:columns(at .. "attn.c_attn.bias", (i - 1) * width, i * width, 3 * width)
    end
    return w
end

return function(m)
    local c = m.config
    local does = m:class(m:with_labels({Model = "", LMHeadModel = "words"}, "score tokens spans"),
                         {"lm_head%..*", "score%..*", "classifier%..*", "qa_outputs%..*"})
    local width, layers, vocab = c:size("n_embd"), c:layers("n_layer"), c:size("vocab_size")
    local positions, eps = c:size("n_positions"), c:number("layer_norm_epsilon", 1e-5, 1)
    local inner = c:size("n_inner", false)
    local scaled, tied = c:flag("scale_attn_weights", true), c:flag("tie_word_embeddings", true)
    c:only("scale_attn_by_inverse_layer_idx", false, "each layer would have a spec of its own")
    c:ignore("is_decoder n_ctx reorder_and_upcast_attn summary_activation summary_first_dropout " ..
             "summary_proj_to_labels summary_type summary_use_proj")
    local seq, all, cache = m:lengths(positions, true, true)

    local spec = m:spec("layer", "A layer with norms before attention and feed-forward")
    spec:add("d_model", width, "n_embd"):add("h", c:size("n_head"), "n_head")
    m:cache(spec, seq, all, cache)
    m:causal(spec):add("bias", "true"):weights_lie("in_out")
    spec:add("scale", not scaled and 1 or nil, "scale_attn_weights"):block("pre", "layer", eps, "layer_norm_epsilon")
    spec:add("ffn", c:word("activation_function", m.activations, "gelu_new"), "activation_function")
    spec:add("d_ff", inner or 4 * width, inner and "n_inner" or "4 n_embd, as n_inner is not given")

    local p = m:prefix({"transformer.", ""}, "wte.weight")
    m:input("decoder", "tokens", m:needs(cache), width):add("vocab", vocab):add("seq_len", seq)
        :add("positions", positions)
    m:section("decoder embedding"):weight("word", p .. "wte.weight", {vocab, width})
        :weight("position", p .. "wpe.weight", {positions, width})
    m:layers("decoder", layers, p .. "h.%d.", function(at) return spec, weights(m, at, width) end)
    m:section("decoder norm"):norm("layer", eps, p .. "ln_f", width)
    if does.words then m:logits("lm_head.weight", p .. "wte.weight", vocab, width, tied) end
    m:decoder_classes(does, "decoder", width)
    m:buffers(".*h%.%d+%.attn%.bias", ".*h%.%d+%.attn%.masked_bias")
end
