-- SPDX-License-Identifier: MIT
-- An object of config.json, whose keys are read one by one: what is wrong with one is noted, and each that nothing has
-- read too.
--
--   (null, words) -> new_keys(model, object, prefix)

local null, words = ...
local show, show_value, list, sorted_keys = words.show, words.show_value, words.list, words.sorted_keys
local LAYERS_LIMIT = 1000 -- of a stack; a config that says more is no model's

local Keys = {}
Keys.__index = Keys

local function new_keys(model, object, prefix)
    local keys = setmetatable({model = model, object = object, prefix = prefix, known = {}, inners = {}}, Keys)
    model.objects[#model.objects + 1] = keys
    return keys
end

function Keys:wrong(key, text, ...)
    self.bad = true
    self.model:wrong("config", "%s%s " .. text, self.prefix, show(key), ...)
end

-- nil where it is absent, or null
function Keys:get(key)
    local value = self.object[key]
    self.known[key] = true
    if value ~= null then return value end
end

-- The same, of a key that has `default` (nil, false: none) where it is absent. Null is no way to say so. Whether it is
-- absent and need not be there: a default of nil: it must; false: without it, nil.
function Keys:read(key, default)
    local value = self:get(key)
    if self.object[key] == null and default then
        self:wrong(key, "is null; write a value, or remove it for %s", show_value(default))
    end
    if value == nil and default ~= nil then return default or nil, true end
    return value, false
end

-- Keys that change nothing here.
function Keys:ignore(names)
    for name in names:gmatch("%S+") do
        self.known[name] = true
    end
end

-- A whole number from `least` (1) to 2^31-1
function Keys:size(key, default, least)
    local value, absent = self:read(key, default)
    if absent then
        return value
    elseif value == nil then
        self:wrong(key, "is missing; a whole number is needed")
        return 1
    end
    local size = math.type(value) and math.tointeger(value)
    if not size or size < (least or 1) or size > 0x7fffffff then
        self:wrong(key, "is %s; a whole number from %d to 2147483647 is needed", show_value(value), least or 1)
        return 1
    end
    return size
end

-- How many layers.
function Keys:layers(key, default)
    local count = self:size(key, default)
    if count and count > LAYERS_LIMIT then
        self:wrong(key, "is %d; at most %d layers are read", count, LAYERS_LIMIT)
        return 1
    end
    return count
end

-- A number above 0; `below`: a limit that no model reaches, nil is none.
function Keys:number(key, default, below)
    local value, absent = self:read(key, default)
    if absent then
        return value
    elseif not math.type(value) or not (value > 0 and value < (below or math.huge)) then
        self:wrong(key, "is %s; a number above 0%s is needed", value == nil and "missing" or show_value(value),
                   below and " and below " .. below or "")
        return 1.0
    end
    return value
end

function Keys:flag(key, default)
    local value = self:read(key, default)
    if value == nil then
        return default
    elseif type(value) ~= "boolean" then
        self:wrong(key, "is %s; true or false is needed", show_value(value))
        return default
    end
    return value
end

-- What `map` makes of a word.
function Keys:word(key, map, default)
    local value, absent = self:read(key, default)
    local ours = type(value) == "string" and map[value]
    if not ours then
        self:wrong(key, "is %s%s, which attngen does not know; %s are known", absent and "by default " or "",
                   value == nil and "missing" or show_value(value), list(sorted_keys(map)))
        return map[default]
    end
    return ours
end

-- A key that may only be absent, null or `value`.
function Keys:only(key, value, why)
    local is = self:get(key)
    if is ~= nil and is ~= value then
        local right = value == nil and "null" or show_value(value)
        self:wrong(key, "is %s, which attngen does not know; it must be %s: %s", show_value(is), right, why)
    end
end

-- The one of two names of a key that is there; the first without either.
function Keys:called(name, other)
    if self:get(name) ~= nil and self:get(other) ~= nil and self:get(name) ~= self:get(other) then
        self:wrong(other, "is %s, and %s is %s; leave one of the two", show_value(self:get(other)), name,
                   show_value(self:get(name)))
    end
    return self:get(name) == nil and self:get(other) ~= nil and other or name
end

-- An object within, the same for each who asks; nil where it is absent, or null.
function Keys:inner(key)
    local value = self:get(key)
    if value == nil or self.inners[key] then
        return self.inners[key]
    elseif type(value) ~= "table" then
        self:wrong(key, "is %s; an object is needed", show_value(value))
        return nil
    end
    self.inners[key] = new_keys(self.model, value, self.prefix .. key .. ".")
    return self.inners[key]
end

-- Notes each key that nothing has read; not within an object that is wrong already, of which the rest was not read.
function Keys:check_known()
    if self.bad and self.prefix ~= "" then return end
    for _, key in ipairs(sorted_keys(self.object)) do
        if type(key) ~= "string" then
            self:wrong(key, "is an item of a list; an object is needed")
        elseif not self.known[key] and self.object[key] ~= null then
            if not self.model.ignored[self.prefix .. key] then
                self.model.unknown = self.model.unknown + 1
                local readers = self.prefix == "" and self.model:readers(key) or ""
                self:wrong(key, "is not known of %s models%s; add --ignore %s%s if it changes nothing of what the " ..
                           "model computes", self.model.family, readers, self.prefix, show(key))
            end
            self.model.ignored[self.prefix .. key] = "met"
        end
    end
end

return new_keys
