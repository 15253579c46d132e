-- SPDX-License-Identifier: MIT
-- mBART: BART with norms before the parts.

return function(m) m:base("bart")(m, {block = "pre", labels = "score spans"}) end
