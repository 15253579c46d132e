-- SPDX-License-Identifier: MIT
-- OLMo Hybrid: OLMo 2's attention in every fourth layer, without rotation where rope_theta is null, and recurrent
-- layers with norms before their parts in the others.

return function(m)
    local c = m.config
    local width, h = c:size("hidden_size", 3840), c:size("num_attention_heads", 30)
    c:ignore("linear_a_log_min linear_a_log_max linear_dt_min linear_dt_max linear_dt_init_floor")
    local keys = c:size("linear_num_key_heads", h)
    local key = c:size("linear_key_head_dim", width * 3 // (4 * keys))
    local last = c:size("num_hidden_layers", 32) - 1
    local function named(at, published, other) -- by transformers in memory
        return m:has(at .. published .. ".weight") and published or other
    end
    local function second(at) return named(at, "feedforward_layer_norm", "post_attention_layernorm") end
    local rope = c:inner("rope_parameters")
    local turned = (rope or c).object.rope_theta ~= m.null
    for key in pairs(not turned and rope and rope.object or {}) do
        rope:ignore(key)
    end
    m:base("olmo2")(m, {
        norms = function(at) return {n1 = second(at), n2 = "post_feedforward_layernorm"} end,
        labels = "", eps = 1e-6, turned = function() return turned end,
        defaults = {hidden_size = 3840, intermediate_size = 11008, num_hidden_layers = 32, num_attention_heads = 30,
                    vocab_size = 100352, max_position_embeddings = 65536},
        recurrent = {
            sizes = {linear_num_key_heads = h, linear_num_value_heads = h, linear_key_head_dim = key,
                     linear_value_head_dim = 2 * key},
            default = function(i)
                return i % 4 ~= 3 and (i < last or last >= 3) and "linear_attention" or "full_attention"
            end,
            products = function(_, w, at)
                for ours, theirs in pairs{q = "q", k = "k", v = "v", a = "a", b = "b", z = "g"} do
                    w["w_" .. ours] = at .. theirs .. "_proj.weight"
                end
            end,
            norm = "o_norm", out = "o_proj", out_eps = 1e-5, beta = c:flag("linear_allow_neg_eigval", true) and 2 or 1,
            block = "pre",
            norms = function(at)
                return {n1 = named(at, "attention_layer_norm", "input_layernorm"), n2 = second(at)}
            end,
        },
    })
end
