-- SPDX-License-Identifier: MIT
-- Words of messages and of what import writes: values and names of a model's, as they may be repeated.
--
--   (null) -> show, show_value, number_text, sorted_keys, list, shape_text, harmless

local null = ...

-- A key or a name of the model's as a message repeats it: short, and every byte visible.
local function show(text)
    text = tostring(text)
    local cut = #text > 80 and text:sub(1, 77) .. "..." or text
    return (cut:gsub("[^\x20-\x7e]", function(byte) return ("\\x%02x"):format(byte:byte()) end))
end

-- A value of config.json in a message.
local function show_value(value)
    if value == null then
        return "null"
    elseif type(value) == "table" then
        return #value > 0 and "a list" or "an object"
    elseif type(value) == "string" then
        return '"' .. show(value) .. '"'
    end
    return tostring(value)
end

-- The shortest decimal that is this number.
local function number_text(value)
    if math.type(value) == "integer" then return tostring(value) end
    for digits = 6, 17 do
        local text = ("%." .. digits .. "g"):format(value)
        if tonumber(text) == value then return text end
    end
end

local function sorted_keys(of)
    local keys = {}
    for key in pairs(of) do
        keys[#keys + 1] = key
    end
    table.sort(keys)
    return keys
end

-- "a, b or c"
local function list(words)
    local last = table.remove(words)
    return #words > 0 and table.concat(words, ", ") .. " or " .. last or last
end

local function shape_text(shape)
    local text = ""
    for _, extent in ipairs(shape) do
        text = text .. "[" .. extent .. "]"
    end
    return text == "" and "a single number" or text
end

-- A text of the model's in characters that are harmless in a string and in a comment of C, others as %XX; cut where it
-- is longer than `most`
local function harmless(text, most)
    text = text:gsub("[^A-Za-z0-9 _.,:;<=>@()&'!$+/-]", function(byte) return ("%%%02X"):format(byte:byte()) end)
    return #text > most and text:sub(1, most - 3):gsub("%%%x?$", "") .. "..." or text
end

return {show = show, show_value = show_value, number_text = number_text, sorted_keys = sorted_keys, list = list,
        shape_text = shape_text, harmless = harmless}
