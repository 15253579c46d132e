-- SPDX-License-Identifier: MIT
-- The lines of a NAME.layers, which docs/models.md describes: sections of KEY = VALUE WORDS, or KEY = "VALUE" WORDS.
--
--   (text, path, fault) -> sections, each {title, number, lines}; their lines are {key, value, words, quoted, number}
--
-- and in the list of sections `wrong`, `name`, `family`, `specs` (names of files, each once, those of layers first) and
-- `users` (how many layers have each of them). fault(word): why it cannot be a name in C; nil: it can.
--
-- Left out on purpose: what the lines mean and whether they fit the specs (model.lua).

local text, path, fault = ...
local FORMAT = "2"
fault = fault or function() end -- read before

-- An error of the file's line `number`; of the whole file where that is 0.
local function wrong(number, why, ...)
    error(("\0%s%s\0%s"):format(path, number > 0 and ":" .. number or "", why:format(...)), 0)
end

local function trim(piece)
    return (piece:match("^.*[^ \t\r]") or ""):match("^[ \t]*(.*)$")
end

local function read_line(line, number)
    local key, rest = line:match("^([^=]*)=(.*)$")
    if not key then wrong(number, "no '='; write key = value") end
    rest = trim(rest)
    if rest:sub(1, 1) ~= '"' then
        return {key = trim(key), value = trim(rest:match("^[^#]*")), words = "", quoted = false, number = number}
    end
    local value, words = rest:match('^"([^"]*)"([^#]*)')
    -- What may stand in a C string as it is: printable ASCII but backslashes and what trigraphs begin with
    if not value or value:find("[^ -~]") or value:find("[\\?]") then
        wrong(number, 'a name in quotes has no end, or is not plain ASCII; write "name"')
    end
    return {key = trim(key), value = value, words = trim(words), quoted = true, number = number}
end

local sections, number = {{title = "", number = 0, lines = {}}}, 0
for line in (text .. "\n"):gmatch("([^\n]*)\n") do
    line, number = trim(line), number + 1
    if line ~= "" and line:sub(1, 1) ~= "#" then
        local lines = sections[#sections].lines
        if line:find("\0", 1, true) then
            wrong(number, "a byte of zero; NAME.layers is text")
        elseif line:sub(1, 1) ~= "[" then
            lines[#lines + 1] = read_line(line, number)
        elseif line:sub(-1) ~= "]" then
            wrong(number, "a section's title has no ']'; write for example [encoder layer 0]")
        else
            sections[#sections + 1] = {title = line:sub(2, -2), number = number, lines = {}}
        end
    end
end

local function value_of(section, key)
    for _, line in ipairs(section.lines) do
        if line.key == key then return line.value end
    end
end

sections.wrong, sections.specs, sections.users = wrong, {}, {}
sections.name, sections.family = value_of(sections[1], "name"), value_of(sections[1], "family")
if value_of(sections[1], "format") ~= FORMAT or fault(sections.family or "") then
    wrong(0, "is no NAME.layers of format %s; attngen import DIR writes one", FORMAT)
elseif fault(sections.name or "") then
    wrong(0, "has no name that is a C identifier; write for example name = minilm")
end

-- Sections and keys that occur twice would be left out; a head's name becomes a field of the call's arguments.
local titles = {}
for _, section in ipairs(sections) do
    local head = section.title:match("^head (.*)$")
    if head and fault(head) then
        wrong(section.number, "the head's name %s; write for example [head logits]", fault(head))
    end
    local keys = {}
    for _, line in ipairs(section.title ~= "weights" and section.lines or {}) do
        if keys[line.key] then wrong(line.number, "the key is in this section twice; write it once") end
        keys[line.key] = true
    end
    if titles[section.title] then wrong(section.number, "the section is there twice; write it once") end
    titles[section.title] = true
end

local places = {}
local function add_spec(section, of_layer)
    local file = value_of(section, "spec") or ""
    if file == "" or file:find("/", 1, true) then
        wrong(section.number, "the layer has no spec; write spec = FILE.layer, of this folder")
    end
    if not places[file] then
        places[file] = #sections.specs + 1
        sections.specs[places[file]], sections.users[places[file]] = file, 0
    end
    if of_layer then sections.users[places[file]] = sections.users[places[file]] + 1 end
end

local others = {}
for _, section in ipairs(sections) do
    if section.title:find("^encoder layer ") or section.title:find("^decoder layer ") then
        add_spec(section, true)
    elseif value_of(section, "spec") then
        others[#others + 1] = section
    end
end
for _, section in ipairs(others) do add_spec(section, false) end
if #sections.specs == 0 then
    wrong(0, "has no layers; attngen import writes a section [encoder layer 0] or [decoder layer 0], and on, for each")
end
return sections
