-- SPDX-License-Identifier: MIT
-- The tables of attngen import --list: of all that is known, and of one folder. They go to the user and into no file.
--
--   (host, show, sorted_keys) -> {all(kinds, classes_of), folder(model, looked), stranger(kind, classes)}
--
-- Left out on purpose: what is known of a model, and what is wrong with it (import.lua and the families).

local host, show, sorted_keys = ...

-- Rows of three words or texts as lines, the first two columns padded.
local function table_text(rows)
    local wide, out = {0, 0}, {}
    for _, row in ipairs(rows) do
        for i = 1, 2 do wide[i] = math.max(wide[i], #row[i]) end
    end
    for i, row in ipairs(rows) do
        out[i] = ("%-" .. wide[1] .. "s  %-" .. wide[2] .. "s  %s\n"):format(row[1], row[2], row[3])
    end
    return table.concat(out)
end

-- A row for each model_type of `kinds`: its classes, by classes_of(kind) → what class names begin with, a table whose
-- keys are their endings. The word "published" in it: transformers has the class no more, published files name it.
local function all(kinds, classes_of)
    local out = {}
    for _, kind in ipairs(sorted_keys(kinds)) do
        local start, classes = classes_of(kind)
        local names = {}
        for i, ending in ipairs(sorted_keys(classes)) do
            names[i] = start .. ending .. (classes[ending]:find("published", 1, true) and " (published name)" or "")
        end
        out[#out + 1] = ("%-16s %s\n"):format(kind, table.concat(names, " "))
    end
    return table.concat(out)
end

-- What a problem is about: a key of config.json, a tensor or an option, and its name.
local function about(problem)
    if problem[1] == "config" then
        local key = problem[2]:match("^%S+")
        return key == "architectures" and "class" or "key", key
    end
    local tensor = problem[1] == "weights" and problem[2]:match('tensor "([^"]*)"')
    return problem[1] == "weights" and "tensor" or "other", tensor or ""
end

-- One folder. `looked`: whether tensors were looked at, which good keys alone allow; else why not
local function folder(model, looked)
    local rows = {{"model_type", model.kind, "known: the family " .. model.family}}
    if model.called then rows[2] = {"class", model.called, "known"} end
    local function add(what, of, problems)
        rows[#rows + 1] = {what, tostring(#sorted_keys(of)), #problems == 0 and "all are known" or "all but these:"}
        for _, problem in ipairs(problems) do
            local kind, name = about(problem)
            rows[#rows + 1] = {kind, name, kind == "key" and problem[2]:sub(#name + 2) or problem[2]}
        end
        return #problems
    end
    local wrong = add("keys", model.config.object, model.problems)
    if looked == true then
        wrong = wrong + add("tensors", model.tensors, model.weight_problems)
    else
        rows[#rows + 1] = {"tensors", "", "not looked at: " .. looked}
    end
    if wrong > 0 then
        host.wrong(model.options.folder, ("cannot be imported as it is; the table has %d reason%s"):format(
            wrong, wrong > 1 and "s" or ""))
    end
    return table_text(rows)
end

-- A folder whose model_type is not known
local function stranger(kind, classes)
    local rows = {{"model_type", show(kind), "not known; attngen import --list prints those that are"}}
    if type(classes) == "table" and type(classes[1]) == "string" then
        rows[2] = {"class", show(classes[1]), "not known"}
    end
    host.wrong(host.path("config.json"), "model_type is not known")
    return table_text(rows)
end

return {all = all, folder = folder, stranger = stranger}
