-- SPDX-License-Identifier: MIT
-- Marian (OPUS-MT): BART with positions that are computed, and no norm after the embedding.

return function(m)
    local c = m.config
    local vocab = c:size("decoder_vocab_size", false)
    c:flag("share_encoder_decoder_embeddings", true)
    m:base("bart")(m, {norm_in = false, offset = 0, vocab = vocab, class = "MTModel",
                       computed = function(half) return half end})
end
