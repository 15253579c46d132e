-- SPDX-License-Identifier: MIT
-- DINOv2: ViT whose attention and feed-forward put out rows with a factor for each column (LayerScale), which packing
-- multiplies into their matrices; the feed-forward may have a gate. With registers: rows without positions after the
-- class. A picture's embedding is the first row of `hidden`; classes are those of this row and the mean of patches.

return function(m)
    local c, registers = m.config, m.kind == "dinov2_with_registers"
    local gated = c:flag("use_swiglu_ffn", false)
    local inner
    c:ignore("apply_layernorm reshape_hidden_states out_features out_indices stage_names use_mask_token " ..
             "drop_path_rate layerscale_value interpolate_antialias interpolate_offset")
    m:base("vit")(m, {
        prefixes = {registers and "dinov2_with_registers." or "dinov2.", ""}, patch_size = registers and 16 or 14,
        eps = 1e-6, registers = registers and c:size("num_register_tokens", 4) or nil,
        classes = {Model = "", ForImageClassification = "classes"},
        modules = {q = "attention.attention.query", k = "attention.attention.key", v = "attention.attention.value",
                   o = "attention.output.dense", ["1"] = not gated and "mlp.fc1" or nil,
                   ["2"] = gated and "mlp.weights_out" or "mlp.fc2", n1 = "norm1", n2 = "norm2"},
        feed = function(spec, width)
            inner = math.floor(width * c:number("mlp_ratio", 4))
            inner = gated and (math.floor(inner * 2 / 3) + 7) // 8 * 8 or inner
            local activation = c:word("hidden_act", m.activations, "gelu")
            spec:add("ffn", gated and "swiglu" or activation, gated and "use_swiglu_ffn" or "hidden_act")
            spec:add("d_ff", inner, "of hidden_size and mlp_ratio")
        end,
        weights = function(at, w)
            if gated then m:split(w, at .. "mlp.weights_in", {{"g", inner}, {"1", inner}}) end
            for letter, name in pairs{o = "layer_scale1.lambda1", ["2"] = "layer_scale2.lambda1"} do
                for _, key in ipairs{"w_" .. letter, "b_" .. letter} do
                    w[key] = m:scaled(w[key], at .. name)
                end
            end
        end,
        heads = function(does, width)
            if does.classes then
                m:classifier{module = "classifier", width = 2 * width, from = "encoder", rows = "first_and_mean"}
            end
        end,
    })
end
