-- SPDX-License-Identifier: MIT
-- How large a model is, before it is written and compiled.
--
--   (options) -> size_note(model)

local options = ...

local function elements(shape)
    local count = 1
    for _, extent in ipairs(shape) do count = count * extent end
    return count
end

-- Bytes of a model: of its packed weights by the bytes of one, of a sequence's cache, and of what packing needs besides
local function sizes(model)
    local rest, packed, cache, work = 0, 0, 0, 0
    for name in pairs(model.used) do
        rest = rest + (model.tensors[name] and elements(model.tensors[name]) or 0)
    end
    for _, section in ipairs(model.sections) do
        local numbers = 0
        for _, tensor in ipairs(section.spec and section.spec.tensors or {}) do
            numbers = numbers + elements(tensor)
        end
        packed, work = packed + numbers, math.max(work, numbers)
        cache = cache + (section.spec and section.spec.cache or 0)
    end
    rest = math.max(0, rest - packed) -- stays in f32: embeddings
    return function(bytes) return (packed * bytes + rest * 4) / 1e9 end, cache / 1e9, work * 4 / 1e9
end

-- What is worth knowing before a model is written and compiled: how large one of more than a gigabyte is and what makes
-- it smaller, and a bound of the cache that is no bound of the model's. Else nil
local function size_note(model)
    local words, packed, cache, work = {}, sizes(model)
    local bytes = ({bf16 = 2, f16 = 2, i8 = 1, i4 = 0.625})[options.weight_type] or
                  ({bf16 = 2, i16 = 2, i8 = 1})[options.precision] or 4
    if packed(bytes) + cache >= 1 then
        words[1] = ("about %.1f GB of packed weights%s"):format(packed(bytes), bytes == 4 and
            (" (--weight-type bf16: %.1f, i8: %.1f, i4: %.1f)"):format(packed(2), packed(1), packed(0.625)) or "")
        words[2] = ("%.1f GB of memory to pack them"):format(work)
        words[3] = cache > 0 and ("%.1f GB of cache for each sequence (--cache-len and --cache-type make that less)")
            :format(cache) or nil
    end
    if model.bounded then
        words[#words + 1] = ("a cache of %d tokens, though the model has %d positions; --cache-len says another number")
            :format(model.CACHE_DEFAULT, model.bounded)
    end
    for _, text in ipairs(model.notes) do
        words[#words + 1] = text
    end
    return #words > 0 and table.concat(words, "; ") or nil
end

return size_note
