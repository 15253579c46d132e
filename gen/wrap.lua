-- SPDX-License-Identifier: MIT
-- C text with no line over MOST columns: names and numbers of the layer are of any length, so templates cannot break
-- lines where the emitted text has to. A line of code is broken where its brackets nest least, a comment's words move
-- to the next line. What a template has broken for its own width is one line again where that fits.
--
-- Of blank lines that follow each other one is left. Left out on purpose: everything else that fits stays as it is.

local MOST = 120
local FEWEST = 40 -- columns that a broken line keeps
local OPENS = { ["("] = true, ["["] = true, ["{"] = true }

-- Columns of a UTF-8 text: every byte but the continuations.
local function columns(s)
    return #s - select(2, s:gsub("[\x80-\xBF]", ""))
end

local function fits(s)
    return #s <= MOST or columns(s) <= MOST -- bytes are no fewer
end

-- Places where a line of code may be broken: the index of the last byte before the break; its rank, how deep in
-- brackets it is and a little more at an operator; `inside`: the column behind the innermost open bracket.
local function places(line)
    local found, open, quote, i = {}, {}, nil, 1
    while i <= #line do
        local c = line:sub(i, i)
        if quote then
            if c == "\\" then i = i + 1 elseif c == quote then quote = nil end
        elseif c == '"' or c == "'" then
            quote = c
        elseif c:find("[%(%[{]") then
            open[#open + 1] = i
        elseif c:find("[%)%]}]") then
            open[#open] = nil
        elseif c == " " then
            local before, behind = line:sub(1, i - 1), line:sub(i + 1)
            local list = before:find("[,;]$") or before:find("[&|][&|]$")
            if list or behind:find("^[?:+*/<=>-]=? ") then
                local more = list and 0 or behind:find("^[?:] ") and 0.25 or 0.5
                found[#found + 1] = { at = i - 1, rank = #open + more, inside = open[#open] }
            end
        end
        i = i + 1
    end
    return found
end

-- One line of code, `ending` behind each of the lines but the last.
local function code(line, ending, out)
    local step
    while not fits(line) do
        local best
        for _, place in ipairs(places(line)) do
            local room = columns(line:sub(1, place.at)) + #ending <= MOST and place.at >= FEWEST
            if room and (not best or place.rank <= best.rank) then best = place end
        end
        if not best then break end
        out[#out + 1] = line:sub(1, best.at) .. ending
        step = best.inside and best.inside <= MOST // 2 and best.inside or step
            or #line:match("^ *") + (best.inside and 8 or 4)
        line = (" "):rep(step) .. line:sub(best.at + 2)
    end
    out[#out + 1] = line
end

-- A line of a comment: `prefix` before the words, each further line has the prefix of a second line. What does not fit
-- is returned if the paragraph goes on with `next`.
local function words(line, next, out)
    local indent = line:match("^ *")
    local second = line:find("^ */%*") and indent .. " * " or line:match("^ *%* +") or indent
    while not fits(line) do
        local at
        for i in line:gmatch("() ") do
            local last = line:find("^%-* ?%*/$", i + 1) -- what ends the comment stays at its last word
            if i > #second + FEWEST // 2 and columns(line:sub(1, i - 1)) <= MOST and not last then at = i end
        end
        if not at then break end
        out[#out + 1] = line:sub(1, at - 1)
        local rest = line:sub(at + 1)
        if next and not line:find("%*/$") and next:sub(1, #second) == second and next:find("^[^ *]", #second + 1) then
            return second .. rest .. " " .. next:sub(#second + 1)
        end
        line = second .. rest
    end
    out[#out + 1] = line
end

-- The text of an #error: a line that ends in a backslash goes on in column one, so that compilers show it as it was.
local function message(line, out)
    while not fits(line) do
        local at
        for i in line:gmatch("() ") do
            if columns(line:sub(1, i)) < MOST and i > FEWEST then at = i end
        end
        if not at then break end
        out[#out + 1] = line:sub(1, at) .. "\\"
        line = line:sub(at + 1)
    end
    out[#out + 1] = line
end

-- The lines of `text`. One of code that ends in a comma between parentheses, or at an operator, and the line behind it
-- are one if that fits, or if the first is to be broken anyway.
local function lines_of(text)
    local lines, open, comment, goes_on = {}, {}, false, false
    for line in text:gmatch("[^\n]*") do -- the last one is what follows the last newline
        local before = lines[#lines]
        local macro = line:find("^#") or (before and before:sub(-1) == "\\")
        if line == "" and before == "" and #lines > 1 then goto continue end
        if goes_on and not macro and (not fits(before) or columns(before) + #line:match("^ *(.*)$") < MOST) then
            lines[#lines] = before .. " " .. line:match("^ *(.*)$")
        else
            lines[#lines + 1] = line
        end
        local code = line
        if comment then code = line:match("%*/(.*)$") or "" end
        comment = comment and not line:find("*/", 1, true)
        if code:find("[\"'/\\]") then
            code = code:gsub("\\.", ""):gsub('"[^"]*"', ""):gsub("/%*.-%*/", "")
            if code:find("/*", 1, true) then code, comment = code:match("^(.-)/%*"), true end
            code = code:gsub("'[^']*'", "")
        end
        if not macro and code:find("[%(%[{}%]%)]") then
            for c in code:gsub("%b()", ""):gmatch("[%(%[{}%]%)]") do -- those that the line leaves open or closes
                if OPENS[c] then open[#open + 1] = c else open[#open] = nil end
            end
        end
        local ending = code:sub(-3)
        local list = ending:sub(-1) == "," and open[#open] == "("
        goes_on = not macro and not comment and (list or ending:find(" [?:=]$") or ending:find("^ [&|][&|]$"))
        ::continue::
    end
    return lines
end

local function wrap(text)
    local lines, out = lines_of(text), {}
    local comment = false
    for i = 1, #lines do
        local line = lines[i]
        if not comment and not fits(line) then
            local before, remark = line:match("^(.-) +(/%*[^*]*%*/)$")
            if before and before:find("%S") then
                words(before:match("^ *") .. remark, nil, out)
                line = before
            end
        end
        comment = comment or line:find("^ */%*") ~= nil
        if fits(line) then
            out[#out + 1] = line
        elseif comment then
            lines[i + 1] = words(line, lines[i + 1], out) or lines[i + 1]
        elseif line:find("^#error ") then
            message(line, out)
        elseif line:find(" \\$") then
            code(line:sub(1, -3), " \\", out)
            out[#out] = out[#out] .. " \\"
        else
            code(line, line:find("^#") and " \\" or "", out)
        end
        if comment and line:find("%*/") then comment = false end
    end
    return table.concat(out, "\n")
end

return wrap
