-- SPDX-License-Identifier: MIT
-- Heads: which ones a model's class has, by `architectures`, and their sections: classes, words, logits.
--
--   (Model, words): adds class(), labels(), classifier(), logits() and those of single kinds to Model

local Model, words = ...
local show, show_value, list, sorted_keys = words.show, words.show_value, words.list, words.sorted_keys
local shape_text, harmless = words.shape_text, words.harmless
local LABELS_LIMIT = 2000 -- names of classes that a header lists; it has their number in any case

-- What the class that config.json names computes: a set of the words that `classes` has for it. A class is called as
-- its family, and then as a key of `classes`. Tensors by the patterns of `heads` are those of other classes where this
-- one does not read them. `alone`: the class of a file without such tensors if config.json names none.
function Model:class(classes, heads, alone)
    local c, known, does = self.top or self.config, {}, {}
    local names, start = c:get("architectures"), self.start
    for i, ending in ipairs(sorted_keys(classes)) do
        known[i] = start .. ending
    end
    self:buffers(table.unpack(heads))
    local words
    if names == nil or type(names) == "table" and next(names) == nil then
        local head
        for _, name in ipairs(sorted_keys(self.tensors)) do
            head = head or self:is_idle(name) and not name:find("pooler.dense", 1, true) and name
        end
        words = alone and not head and classes[alone]
        if not words then
            c:wrong("architectures", "is missing%s; write the model's class, which is one of %s",
                    head and (', and tensor "%s" is that of a head'):format(show(head)) or "", list(known))
        end
    elseif type(names) ~= "table" or type(names[1]) ~= "string" then
        c:wrong("architectures", "is %s; a list of one class is needed", show_value(names))
    else
        for _, name in ipairs(names) do
            if name ~= names[1] then
                c:wrong("architectures", "has %s and %s; write the one that the model is", show_value(names[1]),
                        show_value(name))
                return does
            end
        end
        words = names[1]:sub(1, #start) == start and classes[names[1]:sub(#start + 1)]
        if not words then
            c:wrong("architectures", "has %s, which attngen does not know; %s are known", show_value(names[1]),
                    list(known))
        end
    end
    self.called = words and (names and names[1] or start .. alone)
    for word in (words or ""):gmatch("%S+") do
        does[word] = true
    end
    does.published = nil -- for a list alone
    return does
end

-- The pooler, which a `base` class may do without: what it gives is then not asked for.
function Model:pooler(does, prefix, width, pooled, activation)
    local name = prefix .. "pooler.dense"
    if does.pooler or does.base and self:has(name .. ".weight") then
        self:head("pooler", "encoder", "first", {d_in = width, d_out = pooled, activation = activation or "tanh",
                                                 module = name})
    end
end

-- How many classes a classifier has.
function Model:labels()
    local c = self.top or self.config
    local names, count = c:get("id2label"), c:size("num_labels", false)
    local listed = 0
    for _ in pairs(type(names) == "table" and names or {}) do
        listed = listed + 1
    end
    if names and (listed == 0 or count and count ~= listed) then
        c:wrong("id2label", "has %d classes%s", listed, count and ", and num_labels is " .. count or "")
    end
    self.labelled = listed > 0 and listed <= LABELS_LIMIT and names or nil
    return count or names and listed or self.labels_default or 2
end

-- The names of classes, which are LABEL_0 and on where transformers made them
function Model:add_labels()
    local texts, named = {}, false
    for i = 0, #sorted_keys(self.labelled or {}) - 1 do
        local name = self.labelled[tostring(i)]
        if type(name) ~= "string" then return end
        named = named or name ~= "LABEL_" .. i
        texts[i + 1] = harmless(name, 80)
    end
    self:add_texts("labels", named and texts or {})
end

-- A head of classes, `module`.weight [classes][width]. `of`: module, width, from, rows; count of classes, nil: that of
-- config.json; unbiased; name, where it is not the module's.
function Model:classifier(of)
    local weight = of.module .. ".weight"
    local tensor, count, c = self.tensors[weight], of.count or self:labels(), self.top or self.config
    if not of.count and tensor and tensor[1] ~= count then
        c:wrong("num_labels", 'is %d, by itself, by id2label or by default, and tensor "%s" is %s', count, weight,
                shape_text(tensor))
    end
    local name = of.name or of.module:match("^cls%.(.*)") or of.module:match("^[^.]+")
    self:head(name, of.from, of.rows,
              {d_in = of.width, d_out = count, w = weight, b = not of.unbiased and of.module .. ".bias" or nil})
end

-- The classifier of an encoder's class. `pooled`: the head that one of a sequence is computed from, nil where that is
-- its first row. name: of the module
function Model:classes(does, width, pooled, name)
    for word, row in pairs{classes = {name or "classifier", true}, choice = {name or "classifier", true, 1},
                           tokens = {"classifier"}, spans = {"qa_outputs", false, 2},
                           next = {"cls.seq_relationship", true, 2}} do
        if does[word] then
            self:classifier{module = row[1], width = width, from = row[2] and pooled or "encoder",
                            rows = row[2] and "first" or "all", count = row[3]}
        end
    end
end

-- Endings of a decoder's classes with labels, by the word that `does` has then
local labelled = {score = "ForSequenceClassification", tokens = "ForTokenClassification",
                  spans = "ForQuestionAnswering"}

-- `classes` and those of `words`
function Model:with_labels(classes, words)
    for word in words:gmatch("%S+") do
        classes[labelled[word]] = word
    end
    return classes
end

-- Heads of these classes of a decoder's rows `from`: each has a row of every token, and so of a sequence's last one,
-- which is the one that counts in ForSequenceClassification.
function Model:decoder_classes(does, from, width)
    if does.score then
        self:classifier{module = "score", width = width, from = from, rows = "all", unbiased = true}
    elseif does.tokens then
        self:classifier{module = self:has("score.weight") and "score" or "classifier", width = width, from = from,
                        rows = "all", unbiased = not self.config:flag("token_classification_bias", true)}
    elseif does.spans then
        self:classifier{module = "qa_outputs", width = width, from = from, rows = "all", count = 2}
    end
end

-- Heads of the classes of a model with both stacks: `score` of two products, `spans`
function Model:both_classes(does, width)
    if does.score then
        self:head("dense", "decoder", "all", {d_in = width, d_out = width, activation = "tanh",
                                              module = "classification_head.dense"})
        self:classifier{module = "classification_head.out_proj", name = "classifier", width = width,
                        from = "head dense", rows = "all"}
    end
    self:decoder_classes({spans = does.spans}, "decoder", width)
end

-- Words masked out: a layer `dense`, a norm, and logits by the word embedding or `head`, names of modules. `bias`: of
-- the logits; the one that the head has besides is the one that counts.
function Model:masked_words(of, names)
    local own = names.head .. ".bias"
    local bias = (self:has(own) or not of.tied) and own or names.bias
    local width = of.narrow or of.width
    self:head("transform", "encoder", "all", {d_in = of.width, d_out = width, activation = of.activation,
                                              module = names.dense}, function(section)
        section:norm("layer", of.eps, names.norm, width)
    end)
    self:logits(names.head .. ".weight", of.word, of.vocab, width, of.tied,
                {from = "head transform", bias = bias})
end

-- The head that gives a logit for each word: a matrix of its own where the file has one, else the word embedding.
-- `more`: {scale = …, softcap = …, bias = name, from = …}.
function Model:logits(head, word, vocab, width, tied, more)
    more = more or {}
    local own = self:has(head) or not tied
    if own and not self:has(head) and not self.lost then
        self:wrong("weights", 'no tensor "%s"; %s of %s is needed, or tie_word_embeddings = true, by which it is "%s"',
                   head, shape_text{vocab, width}, self.family, word)
    end
    self:head("logits", more.from or "decoder", "all",
              {d_in = width, d_out = vocab, w = own and head or word, tied = not own, b = more.bias,
               scale = more.scale, softcap = more.softcap})
end

-- [ends]: ids that end a text, as generate() of transformers has them, of a decoder that gives logits
function Model:add_ends()
    local generation, ids, seen = self:json_of("generation_config.json"), {}, {}
    local vocab, logits
    for _, section in ipairs(self.sections) do
        logits = logits or section.title == "head logits"
        for _, line in ipairs(section.title == "decoder input" and section or {}) do
            vocab = line[1] == "vocab" and tonumber(line[2]) or vocab
        end
    end
    local said = type(generation) == "table" and generation.eos_token_id
    if not said or said == self.null then
        said = self.config:get("eos_token_id") or self.top and self.top:get("eos_token_id")
    end
    for _, id in ipairs(type(said) == "table" and said or {said}) do
        if math.type(id) == "integer" and id >= 0 and vocab and id < vocab and not seen[id] then
            ids[#ids + 1], seen[id] = id, true
        end
    end
    if logits and #ids > 0 then self:section("ends"):add("ids", table.concat(ids, " ")) end
end
