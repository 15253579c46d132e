-- SPDX-License-Identifier: MIT
-- M2M-100 and NLLB: BART with norms before the parts, and positions that are computed and begin after that of padding.

return function(m)
    local first = m.config:size("pad_token_id", 1, 0) + 1
    m:base("bart")(m, {block = "pre", norm_in = false, offset = first, scaled = true, act = "relu",
                       computed = function(half) return math.max(half - 1, 1) end})
end
