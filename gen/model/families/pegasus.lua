-- SPDX-License-Identifier: MIT
-- Pegasus: Marian with norms before the parts.

return function(m)
    m:base("bart")(m, {block = "pre", norm_in = false, offset = 0, computed = function(half) return half end})
end
