-- SPDX-License-Identifier: MIT
-- The text of Qwen 2-VL, 2.5-VL and 3-VL: Qwen 2 or 3. A token of text has one position on all three axes, so their
-- sections (mrope) are one rotation; pictures and films are left out.

return function(m)
    local top, text, tied = m.config, m.kind:find("_text$"), nil
    top:ignore("vision_config image_token_id video_token_id vision_token_id vision_start_token_id vision_end_token_id")
    tied = top:flag("tie_word_embeddings", false)
    if top.object.text_config ~= nil then -- else a file of Transformers 4: its keys are those of the text
        m:within("text_config")
        m.config:only("tie_word_embeddings", tied, "it is that beside text_config")
    else
        top:only("is_causal", true, "of a file without text_config transformers does not read it")
    end
    m:buffers("visual%..*", "model%.visual%..*")
    m:note("the text of this model alone is read, no pictures and films")
    local third = m.kind:find("^qwen3")
    m:base(third and "qwen3" or "qwen2")(m, {
        classes = text and {TextModel = ""} or {Model = "", ForConditionalGeneration = "words"}, labels = "",
        prefixes = {"model.language_model.", "language_model.", "model.", ""}, tied = tied,
        biases = not third and function() return "qkv" end or nil, eps = third and 1e-6 or 1e-5, full_layers = 80,
        rope = function(_, spec, of, layer)
            m:rope(spec, of, layer, {mixed = true, theta = third and 500000 or 1000000})
        end,
    })
end
