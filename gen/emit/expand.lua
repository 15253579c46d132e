-- SPDX-License-Identifier: MIT
-- A template becomes a Lua chunk, the chunk becomes text.
--
--   $ lua           a line of Lua ("$" in column one, then a blank; or "$" alone)
--   text ${expr}    anything else: emitted byte for byte, ${expr} replaced by its value
--
-- One template line is one Lua line, so Lua's own messages name the template's file and line. A name that is
-- not there is an error, never an empty text. Left out on purpose: escapes, filters, whitespace control.

-- raw table, table, function(name) -> text or nil, message; "dir/"; function(text) -> text; template_translate();
-- lines_joined(); template_text()
local context, helpers, read, folder, wrap, translate, join, text_of = ...
local MOST_NESTED = 32 -- includes
local MOST_COLUMNS = 120 -- of lines that joined() makes

local depth = 0 -- of nested includes

-- The text of a value: integral numbers without a point, others with the nine digits that f32 needs.
local function number_text(v)
    if math.type(v) == "integer" then return ("%d"):format(v) end
    if v == math.floor(v) then return ("%.0f"):format(v + 0.0) end -- + 0.0: no "-0"
    return ("%.9g"):format(v)
end

local function checked(v, expression, level)
    local kind = type(v)
    if kind == "string" then return v end
    if kind ~= "number" then
        error(("${%s} is a %s; only numbers and strings have a text"):format(expression, kind), level)
    elseif v ~= v or v == math.huge or v == -math.huge then
        error(("${%s} is not finite; choose the literal with an if"):format(expression), level)
    end
    return number_text(v)
end

-- The text that is being made: put(text) adds to it, cut() is how long it is, cut(from) takes off what is behind there
local put, cut, emitters = text_of(checked)

local function emit(text)
    put(checked(text, "emit", 3))
end

-- What a call of `work` emits, as a text
local function captured(work, ...)
    local from = cut()
    work(...)
    return cut(from)
end

-- What `lines`, a function, emits, with lines of one indentation that follow each other joined by blanks, up to
-- MOST_COLUMNS.
local function joined(lines)
    put(join(captured(lines), MOST_COLUMNS))
end

-- load() without the message handler, which Lua would call for some of load's own errors and not for others.
local function load_text(code, name)
    return select(2, pcall(load, code, name, "t"))
end

-- "${" at `open` is closed by the first "}" that leaves a complete Lua expression, as braces and strings may hold
-- others. template.c does not ask where there is no choice: loading the chunk finds out, then `careful` reports it.
local function closing_brace(text, open, place)
    local line = text:match("^[^\n]*", open)
    local close, first_message = 2, nil
    while true do
        close = line:find("}", close + 1, true)
        if not close then error(place .. ": " .. (first_message or "'${' without a '}' on its line"), 0) end
        local good, message = load_text("return (" .. line:sub(3, close - 1) .. "\n)", "=expression")
        if good then return open + close - 1 end
        first_message = first_message
            or "bad expression in '${…}': " .. message:gsub("^[^:]*:%d+: ", ""):gsub("%s+", " ")
    end
end

local chunks = {} -- template name → compiled chunk and what emits its texts and values
local function compile(name)
    if not chunks[name] then
        local text, message = read(name)
        if not text then return nil, message end
        local code, texts = translate(name, text, closing_brace)
        local chunk, syntax = load_text(code, "@" .. name)
        if not chunk then
            translate(name, text, closing_brace, true) -- raises what is wrong with an expression
            error(syntax, 0)
        end
        chunks[name] = { run = chunk, emitters(texts) }
    end
    return chunks[name]
end

-- The keys of a table in order, numbers first; of a view the keys of its table
local function sorted_keys(t)
    local meta, keys = getmetatable(t), {}
    if meta and meta.keys then return meta.keys() end
    for key in next, t do keys[#keys + 1] = key end
    table.sort(keys, #t > 0 and function(a, b)
        if type(a) == type(b) then return a < b end
        return type(a) == "number"
    end or nil)
    return keys
end

-- pairs() in the order of the keys, so that the output never depends on a table's order
local function sorted_pairs(t)
    local keys, i = sorted_keys(t), 0
    return function()
        i = i + 1
        if keys[i] ~= nil then return keys[i], t[keys[i]] end
    end
end

-- A view of a table of the context: nothing in it can be set, and what is not in it is an error.
local function read_only(t, what)
    local keys
    if type(t) ~= "table" then return t end
    return setmetatable({}, {
        __index = setmetatable({}, { __index = function(views, key) -- once for each key
            local v = t[key]
            if type(v) == "table" then v = read_only(v, what .. "." .. key) end
            if v == nil and key ~= #t + 1 then -- one past the end is nil, for ipairs
                error(("'%s' has no field '%s'"):format(what, tostring(key)), 2)
            end
            views[key] = v
            return v
        end }),
        __newindex = function(_, key)
            error(("'%s.%s' cannot be set: the context is read-only"):format(what, tostring(key)), 2)
        end,
        __len = function() return #t end,
        keys = function()
            keys = keys or sorted_keys(t)
            return keys
        end,
    })
end

-- Left out: whatever would print an address or a random number, so that the output never differs between runs.
local format, safe = string.format, {} -- forms that print no address
local ADDRESS = { table = true, ["function"] = true } -- whose %s it would be
function string.format(form, ...)
    local a, b, c, d = ...
    if ADDRESS[type(a)] or ADDRESS[type(b)] or ADDRESS[type(c)] or d ~= nil then
        for i = 1, select("#", ...) do
            local kind = type((select(i, ...)))
            if ADDRESS[kind] then error(format("bad argument #%d to 'format' (a %s has no text)", i + 1, kind), 2) end
        end
    end
    if not safe[form] and form:gsub("%%%%", ""):find("%%[-%d]*p") then error("'%p' prints an address", 2) end
    safe[form] = true
    return format(form, ...)
end
string.dump, math.random, math.randomseed = nil, nil, nil

local builtins = {
    string = read_only(string, "string"), table = read_only(table, "table"), math = read_only(math, "math"),
    fmt = string.format, ipairs = ipairs, pairs = sorted_pairs, tonumber = tonumber, type = type,
    select = select, error = error, emit = emit, joined = joined,
    -- the names of a set's templates, and `more`: its plan, name and lanes; how many numbers a row of partial sums has
    set_of = function(plan, more)
        more = more or {}
        more.plan, more.ISA, more.L = plan, plan.isa.name, plan.lanes
        more.PLACES = plan.places > plan.lanes and number_text(plan.places) or "LANES"
        return more
    end,
    tostring = function(v)
        if type(v) == "number" then return number_text(v) end
        if type(v) == "table" or type(v) == "function" then error(("a %s has no text"):format(type(v)), 2) end
        return tostring(v)
    end,
    assert = function(condition, message, ...)
        if not condition then error(message or "assertion failed", 2) end
        return condition, message, ...
    end,
}

-- The names that every template sees, in one flat table.
local function root_names()
    local names = {}
    for _, source in ipairs { builtins, helpers, context } do
        for name, v in sorted_pairs(source) do
            if names[name] ~= nil then error(("the context's name '%s' is taken"):format(name), 0) end
            names[name] = source == context and read_only(v, name) or v
        end
    end
    return setmetatable(names, { __index = function(_, name)
        error(("unknown name '%s'"):format(tostring(name)), 2)
    end })
end

local run

-- The names of one expansion: `vars`, then what the includer sees, then the root's.
local function scope_of(vars, parent)
    local scope = setmetatable({}, { __index = parent })
    for name, v in next, vars do scope[name] = v end
    local function nested(name, inner)
        if type(name) ~= "string" then error("include and capture need the name of a template", 3) end
        if type(inner or {}) ~= "table" then error("the second argument is a table of names and values", 3) end
        if depth == MOST_NESTED then error("includes are nested too deep: does a template include itself?", 3) end
        local chunk, message = compile(name)
        if not chunk then error(message, 3) end
        run(chunk, scope_of(inner or {}, scope))
    end
    function scope.include(name, inner)
        nested(name, inner)
    end
    function scope.capture(name, inner)
        return captured(nested, name, inner)
    end
    return scope
end

function run(chunk, scope)
    depth = depth + 1
    chunk.run(chunk[1], chunk[2], setmetatable({}, {
        __index = scope,
        __newindex = function(_, name)
            error(("assignment to '%s', which is not a local; write 'local %s'"):format(name, name), 2)
        end,
    }))
    depth = depth - 1
end

local root
-- `plan`: nil, or which of the context's plans the template sees
local function expand(name, plan)
    depth, root = 0, root or root_names()
    cut(0)
    local chunk, message = compile(name)
    if not chunk then error(message, 0) end
    run(chunk, scope_of(plan and builtins.set_of(root.plans[plan]) or {}, root))
    return wrap(cut(0))
end

-- The message handler: "name:line: message" becomes "dir/name:line\0message (included from …)".
local function explain(message)
    if type(message) ~= "string" then message = "error() was given a " .. type(message) end
    if message:sub(1, 1) == "\0" then return message:sub(2) end -- of a user's file: "\0place\0message"
    local name, line, text = message:match("^([^:\n]+):(%d+): (.*)$")
    text = text or message
    local from, level = {}, 2
    while true do
        local info = debug.getinfo(level, "Sl")
        if not info then break end
        local template = info.what == "main" and info.source:sub(2)
        if template and chunks[template] then from[#from + 1] = template .. ":" .. info.currentline end
        level = level + 1
    end
    if from[1] and name and from[1]:match("^(.*):%d+$") == name then table.remove(from, 1) end
    if not name and from[1] then -- raised by a C function on a template's behalf
        name, line = table.remove(from, 1):match("^(.*):(%d+)$")
    end
    if #from > 4 then from = { from[1], from[2], "…", from[#from] } end
    if #from > 0 then text = text .. " (included from " .. table.concat(from, ", ") .. ")" end
    if not name then return "\0" .. text end
    if name ~= "emit/expand.lua" and name ~= "emit/context.lua" then name = folder .. name end
    return name .. ":" .. line .. "\0" .. text
end

return expand, explain
