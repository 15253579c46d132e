-- SPDX-License-Identifier: MIT
-- GPT-J: attention and feed-forward side by side after one norm, the first columns of a head rotated as neighbours.

return function(m)
    local c = m.config
    c:ignore("n_ctx rotary scale_attn_weights summary_activation summary_first_dropout summary_proj_to_labels " ..
             "summary_type summary_use_proj")
    m:decoder{
        labels = "score spans",
        keys = {width = "n_embd", layers = "n_layer", h = "n_head", positions = "n_positions", d_ff = "n_inner",
                act = "activation_function", eps = "layer_norm_epsilon", h_kv = false, d_k = false},
        prefixes = {"transformer.", ""}, word = "wte", layer = "h.%d.", last = "ln_f", inner = 4, norm = "layer",
        eps = 1e-5, block = "parallel", norm_shared = true, norms = {n1 = "ln_1"}, gated = false, act = "gelu_new",
        attention = {q = "attn.q_proj", k = "attn.k_proj", v = "attn.v_proj", o = "attn.out_proj"},
        ffn_modules = {["1"] = "mlp.fc_in", ["2"] = "mlp.fc_out"}, biases = function() return "1" end,
        rope = function(_, spec)
            spec:add("rope", "interleaved"):add("rope_dims", c:size("rotary_dim", 64), "rotary_dim")
        end,
        logits = {bias = "lm_head.bias"}, buffers = {".*h%.%d+%.attn%.bias", ".*h%.%d+%.attn%.masked_bias"},
    }
end
