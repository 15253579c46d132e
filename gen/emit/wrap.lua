-- SPDX-License-Identifier: MIT
-- C text with no line over MOST columns: names and numbers of the layer are of any length, so templates cannot break
-- lines where the emitted text has to. A line of code is broken where its brackets nest least, a comment's words move
-- to the next line. What a template has broken for its own width is one line again where that fits.
--
-- Of blank lines that follow each other one is left. Left out on purpose: everything else that fits stays as it is.

local lines_of, columns, place_of = ... -- lines_of_code(), lines_columns(), lines_place() of lines.c
local MOST = 120
local FEWEST = 40 -- columns that a broken line keeps

local function fits(s)
    return #s <= MOST or columns(s) <= MOST -- bytes are no fewer
end

-- One line of code, `ending` after each of the lines but the last.
local function code(line, ending, out)
    local step
    while not fits(line) do
        local least = math.max(FEWEST, (line:find("%S"))) -- indentation alone is no line
        local at, inside = place_of(line, least, MOST - #ending)
        if not at then break end
        out[#out + 1] = line:sub(1, at) .. ending
        step = inside and inside <= MOST // 2 and inside or step or #line:match("^ *") + (inside and 8 or 4)
        line = (" "):rep(step) .. line:sub(at + 2)
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

-- Whether line i is of a comment, or ends with one that the line begins with
local function in_comment(lines, i)
    for k = i, 1, -1 do
        if k < i and lines[k]:find("*/", 1, true) then return false end
        if lines[k]:find("^ */%*") then return true end
    end
    return false
end

local function wrap(text)
    local lines, out = lines_of(text, MOST), {}
    for i = 1, #lines do
        local line = lines[i]
        local comment = not fits(line) and in_comment(lines, i)
        if not comment and not fits(line) then
            local before, remark = line:match("^(.-) +(/%*[^*]*%*/)$")
            if before and before:find("%S") then
                words(before:match("^ *") .. remark, nil, out)
                line = before
            end
        end
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
            local macro = line:find("^#") or (out[#out] or ""):find("\\$")
            code(line, macro and " \\" or "", out)
        end
    end
    return table.concat(out, "\n")
end

return wrap
