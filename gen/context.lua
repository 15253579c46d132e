-- Names and numbers for templates. Nothing here decides anything: the plan does, in C.

local helpers = {}

-- Columns of a UTF-8 text: every byte but the continuations.
local function columns(s)
    return #s - select(2, s:gsub("[\x80-\xBF]", ""))
end

function helpers.upper(s) return s:upper() end

function helpers.ceil_div(a, b)
    if b <= 0 then error("ceil_div: the divisor must be positive", 2) end
    return (a + b - 1) // b
end

function helpers.round_up(a, b)
    if b <= 0 then error("round_up: the step must be positive", 2) end
    return (a + b - 1) // b * b
end

-- Near-equal parts of at most `most`: 7 by 3 → {height=3, count=1}, {height=2, count=2}.
function helpers.split_even(total, most)
    if total < 0 or most <= 0 then error("split_even: needs total >= 0 and most > 0", 2) end
    if total == 0 then return {} end
    local parts = (total + most - 1) // most
    local low, more = total // parts, total % parts
    if more == 0 then return { { height = low, count = parts } } end
    return { { height = low + 1, count = more }, { height = low, count = parts - more } }
end

-- The shortest decimal literal that gives this f32 back: 0.1 → "0.1f", 2 → "2.0f".
function helpers.float(x)
    if type(x) ~= "number" then error("float: needs a number, got a " .. type(x), 2) end
    local single = ("f"):unpack(("f"):pack(x))
    if single ~= single or single == math.huge or single == -math.huge then
        error(("float: %s has no finite f32"):format(x), 2)
    end
    for digits = 1, 9 do
        local text = ("%." .. digits .. "g"):format(single)
        if ("f"):unpack(("f"):pack(tonumber(text))) == single then
            return (text:find("[.e]") and text or text .. ".0") .. "f"
        end
    end
end

function helpers.size(x)
    local whole = math.tointeger(x)
    if not whole or whole < 0 then error(("size: %s is not a size"):format(tostring(x)), 2) end
    return ("((size_t)%d)"):format(whole)
end

-- `text` broken at blanks into lines of at most `width` columns, each behind `prefix`, joined by newlines. Newlines
-- of the text stay; what would end the comment is taken apart.
function helpers.c_comment_wrap(text, width, prefix)
    prefix = prefix or ""
    local lines = {}
    for paragraph in (text:gsub("%*/", "* /"):gsub("/%*", "/ *") .. "\n"):gmatch("([^\n]*)\n") do
        local line = paragraph:match("^%s*")
        local empty = true
        for word in paragraph:gmatch("%S+") do
            if not empty and columns(prefix .. line) + 1 + columns(word) > width then
                lines[#lines + 1] = prefix .. line
                line, empty = paragraph:match("^%s*"), true
            end
            line = line .. (empty and "" or " ") .. word
            empty = false
        end
        lines[#lines + 1] = ((prefix .. line):gsub("%s+$", ""))
    end
    return table.concat(lines, "\n")
end

return helpers
