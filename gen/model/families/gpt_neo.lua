-- SPDX-License-Identifier: MIT
-- GPT-Neo: GPT-2 whose scores have no scale, with windows in the layers that attention_types calls local.

-- [[["global", "local"], 6]] and its like → of each layer, whether it is local
local function windows(m, layers)
    local list, size = m.config:get("attention_types"), m.config:size("window_size", 256)
    list = list == nil and {{{"global", "local"}, 12}} or list
    local of, good = {}, type(list) == "table"
    for _, item in ipairs(good and list or {}) do
        good = good and type(item) == "table" and type(item[1]) == "table" and math.type(item[2]) == "integer" and
               item[2] <= layers
        for _ = 1, good and item[2] or 0 do
            for _, word in ipairs(item[1]) do
                good = good and (word == "global" or word == "local")
                of[#of + 1] = word == "local"
            end
        end
    end
    if not good or #of ~= layers then
        m.config:wrong("attention_types", "is no list of [kinds, how often] for %d layers", layers)
    end
    return size - 1, of
end

return function(m)
    m.config:ignore("attention_layers summary_activation summary_first_dropout summary_proj_to_labels summary_type " ..
                    "summary_use_proj")
    m:decoder{
        keys = {layers = "num_layers", h = "num_heads", act = "activation_function", eps = "layer_norm_epsilon",
                h_kv = false, d_k = false},
        prefixes = {"transformer.", ""}, word = "wte", layer = "h.%d.", last = "ln_f", inner = 4, norm = "layer",
        eps = 1e-5, norms = {n1 = "ln_1", n2 = "ln_2"}, gated = false, act = "gelu_new", tied = true,
        attention = {q = "attn.attention.q_proj", k = "attn.attention.k_proj", v = "attn.attention.v_proj",
                     o = "attn.attention.out_proj"},
        ffn_modules = {["1"] = "mlp.c_fc", ["2"] = "mlp.c_proj"}, biases = function() return "o1" end, rope = false,
        more = function(_, spec) spec:add("scale", 1, "of every GPT-Neo") end, positions = {"wpe"}, windows = windows,
        window_key = "window_size",
        buffers = {".*h%.%d+%.attn%.attention%.bias", ".*h%.%d+%.attn%.attention%.masked_bias"},
    }
end
