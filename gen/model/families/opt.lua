-- SPDX-License-Identifier: MIT
-- OPT: GPT-2's layer; OPT 350M has norms after each part, and word embeddings of another width. The table of learned
-- positions begins with two unused rows.

return function(m)
    local c = m.config
    local before, width = c:flag("do_layer_norm_before", true), c:size("word_embed_proj_dim", false)
    local last = not c:flag("_remove_final_layer_norm", false) and before
    c:ignore("init_std prefix learned_embeddings scale_embeddings")
    m:decoder{
        labels = "score spans",
        keys = {d_ff = "ffn_dim", act = "activation_function", eps = false, h_kv = false, d_k = false},
        prefixes = {"model.decoder.", "decoder."}, norm = "layer", eps = 1e-5, eps_of = "of every OPT",
        block = before and "pre" or "post", norms = {n1 = "self_attn_layer_norm", n2 = "final_layer_norm"},
        last = last and "final_layer_norm",
        gain = c:flag("layer_norm_elementwise_affine", true), tied = true, gated = false, act = "relu", rope = false,
        attention = {q = "self_attn.q_proj", k = "self_attn.k_proj", v = "self_attn.v_proj", o = "self_attn.out_proj"},
        ffn_modules = {["1"] = "fc1", ["2"] = "fc2"}, positions = {"embed_positions", 2},
        biases = function() return c:flag("enable_bias", true) and "qkvo1" or "" end,
        narrow = width and width ~= c:size("hidden_size") and {width = width, into = "project_in", out = "project_out"}
                 or nil,
    }
end
