-- SPDX-License-Identifier: MIT
-- XLM-RoBERTa XL: RoBERTa with norms before the parts and after the last layer, and none after the embedding.

return function(m)
    m:base("roberta")(m, {
        block = "pre", small = 1e-5, types = 1, norm_in = false, last = "encoder.LayerNorm",
        modules = {q = "attention.self.query", k = "attention.self.key", v = "attention.self.value",
                   o = "attention.output.dense", ["1"] = "intermediate.dense", ["2"] = "output.dense",
                   n1 = "attention.self_attn_layer_norm", n2 = "LayerNorm"},
    })
end
