-- SPDX-License-Identifier: MIT
-- Nemotron: Llama with layer norms whose gains are stored less 1, a feed-forward without a gate, and some columns of a
-- head rotated.

return function(m)
    m.config:ignore("kv_channels")
    m:decoder{
        keys = {eps = "norm_eps"}, eps = 1e-5, norm = "layer", plus_one = true, gated = false, act = "relu2",
        ffn_modules = {["1"] = "mlp.up_proj", ["2"] = "mlp.down_proj"}, biases = m.flagged_biases,
        rope = function(_, spec, of, layer) m:rope(spec, of, layer, {partial = 0.5}) end,
    }
end
