-- SPDX-License-Identifier: MIT
-- Names and numbers for templates. Nothing here decides anything: the plan does, in C.

local columns, texts_of = ... -- lines_columns(), lines_blocks() of lines.c
local helpers = {}

function helpers.upper(s) return s:upper() end

function helpers.ceil_div(a, b)
    if b <= 0 then error("ceil_div: the divisor must be positive", 2) end
    return (a + b - 1) // b
end

function helpers.round_up(a, b)
    if b <= 0 then error("round_up: the step must be positive", 2) end
    return (a + b - 1) // b * b
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

-- An int whose four bytes are n
function helpers.four_bytes(n)
    return (n < 128 and "0x%08x" or "(int32_t)0x%08xu"):format(n * 0x01010101)
end

-- `text` broken at blanks into lines of at most `width` columns, each with `prefix`, joined by newlines. Newlines of
-- the text are kept; "*/" and "/*" are broken up.
function helpers.c_comment_wrap(text, width, prefix)
    prefix = prefix or ""
    local lines = {}
    for paragraph in (text:gsub("%*/", "* /"):gsub("/%*", "/ *") .. "\n"):gmatch("([^\n]*)\n") do
        local line = paragraph:match("^%s*")
        local empty = true
        for word in paragraph:gmatch("%S+") do
            if not empty and #prefix + #line + #word >= width -- bytes are no fewer than columns
                and columns(prefix .. line) + 1 + columns(word) > width then
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

-- The items of `list` whose kind is one of the words of the first text, then those of the second, and so on.
function helpers.of_kinds(list, ...)
    local found = {}
    for _, words in ipairs({ ... }) do
        for _, item in ipairs(list) do
            if (" " .. words .. " "):find(" " .. item.kind .. " ", 1, true) then found[#found + 1] = item end
        end
    end
    return found
end

-- `a + n`, `a * n`, "n things", loops over n at a time, as a person would write them: no + 0, * 1, no plural of one.
function helpers.plus(a, n) return n ~= 0 and a .. " + " .. n or a end
function helpers.offset(a, n) return n < 0 and a .. " - " .. -n or helpers.plus(a, n) end
-- That another product's function computes the parts of this one: their weights and biases lie alike
function helpers.by(plan, label)
  local from = plan.products[label].parts_of
  return from ~= label and string.format(", by %s_part_%s()", from, plan.isa.name) or ""
end
-- The packed block of a product as the function of its parts reads it, which may be another product's: off by what lies
-- between both
function helpers.packed_of(g, plan, narrow)
  local of, mine = plan.products[g.parts_of].place, g.place
  for _, name in ipairs(narrow and {"scales", "b"} or {"w"}) do
    if g.behind ~= 0 and type(of[name]) == "string" and type(mine[name]) == "string" then
      return string.format("packed + (%s - %s)", mine[name], of[name])
    end
  end
  return helpers.plus("packed", g.behind)
end
function helpers.times(a, n) return n ~= 1 and a .. " * " .. n or a end
function helpers.multiple(n, a) return n ~= 1 and n .. " * " .. a or a end
function helpers.step(a, n, b) return n ~= 0 and a .. " + " .. (b and helpers.multiple(n, b) or n) or a end
-- Numbers, of the given bytes each, from a sequence's part of a cache to the next one's; `own`: they are side by side.
function helpers.cache_step(apart, bytes, own) return apart > 0 and helpers.size(apart // bytes) or own end
function helpers.left(a, n) return n ~= 1 and a .. " >= " .. n or a .. " > 0" end
function helpers.take(a, n) return n ~= 1 and a .. " -= " .. n or a .. "--" end
-- The step of time that a decay is made of, of x; 0: no limit
function helpers.dt_text(x, least, most)
    local text = ("ln(1 + e^(%s + dt_b))"):format(x)
    text = least > 0 and ("max(%.9g, %s)"):format(least, text) or text
    return most > 0 and ("min(%.9g, %s)"):format(most, text) or text
end
function helpers.some(n, thing, things) return n .. " " .. (n == 1 and thing or things or thing .. "s") end

-- The larger of m, a maximum so far, and a score. portable: NaN is no score, so the order of scores does not matter.
function helpers.larger(portable, m, score)
    return portable and ("vec_max(%s, %s)"):format(score, m) or ("vec_max(%s, %s)"):format(m, score)
end

-- For #if: whether a set that has fast products is compiled
function helpers.fast_sets(plans)
    local sets = {}
    for _, plan in ipairs(plans) do
        if plan.has_fast then sets[#sets + 1] = "COMPILES_" .. plan.isa.name:upper() end
    end
    return table.concat(sets, " || ")
end

-- Arguments of tile.in: those of `of`, and defaults for what its records leave out.
local TILE = {
    a = { split = 0, far = 0, scale = 0 },
    b = { type = "float", of = "weights", line = 16, load = false, corrected = false },
    c = { tail = 0, scatter = false },
    loop = { depth = 0, ahead = 0, stepped = false, in_order = 0, keeps = false },
    start = { with = "zero", resume = false, from = false, sums = false },
    steps = { kind = "floats", type = "", group = 0 },
    finish = { scaled = "", adds = false, exact = false, weights = false, terms = {} },
}
function helpers.tile(of)
    local all = {}
    for name, v in pairs(of) do all[name] = v end
    for record, defaults in pairs(TILE) do
        all[record] = {}
        for name, v in pairs(defaults) do all[record][name] = v end
        for name, v in pairs(of[record] or {}) do all[record][name] = v end
    end
    return all
end

-- For tile.in: the heights' rows with one `unroll` and `prefetch` for all.
function helpers.heights_alike(heights, unroll, prefetch)
    local all = {}
    for i, t in ipairs(heights) do
        all[i] = { rows = t.rows, unroll = unroll, prefetch = prefetch, registers = t.registers }
    end
    return all
end

-- Calls add() with what `pattern` finds at each place of `word` in `text`: gmatch, but quick where words are few.
local function each(text, word, pattern, add)
    local at = text:find(word, 1, true)
    while at do
        add(text:match(pattern, at + #word))
        at = text:find(word, at + #word, true)
    end
end

-- The blocks of a vocabulary: C, separated by blank lines; macros that stand together are a block each. Of each: its
-- text, the macros that it defines, and the names by which it is wanted, those of its functions too. Of blocks that
-- define the same name the first one counts.
local vocabularies = {}
local function blocks_of(vocabulary)
    local blocks, defined = vocabularies[vocabulary], {}
    if blocks then return blocks end
    blocks = {}
    local function add(text)
        local macros, names, again = {}, {}, false
        each(text, "#define ", "^[%w_]+", function(name) macros[#macros + 1], names[#names + 1] = name, name end)
        each(text, "static inline ", "^[%w_]+ ([%w_]+)%(", function(name) names[#names + 1] = name end)
        for _, name in ipairs(names) do again = again or defined[name] end
        if again then return end
        for _, name in ipairs(names) do defined[name] = true end
        local title = text:sub(1, 2) == "/*" and text:sub(-3) == "*/\n"
        blocks[#blocks + 1] = { text = text, macros = macros, names = names, title = title }
    end
    for _, text in ipairs(texts_of(vocabulary)) do add(text) end
    vocabularies[vocabulary] = blocks
    return blocks
end

-- What the words of `text` mean: blocks of a comment, then names
local function meanings_of(text)
    local meanings = {}
    for comment, names in text:gmatch("(/%*.-%*/\n)(.-\n)\n") do
        for name in names:gmatch("%S+") do meanings[name] = comment end
    end
    return meanings
end

-- The words of a text, and of texts before: word → true
function helpers.words_in(text, before)
    local used = setmetatable({}, {__index = before})
    helpers.mark_words(text, used)
    return used
end

-- The blocks of a vocabulary that define a macro or function which is among the words `before` or a later chosen block
-- uses; and the names of their macros, for #undef. A comment that is a block of its own is the title of the blocks
-- after it; one that begins several blocks is said once. Before a block without a comment stands what its word means,
-- of `words`, once.
function helpers.words_used(vocabulary, before, words)
    local blocks, used, chosen, macros = blocks_of(vocabulary), helpers.words_in("", before), {}, {}
    local meanings = meanings_of((words or "") .. "\n")
    for i = #blocks, 1, -1 do
        local block, wanted = blocks[i], false
        for _, name in ipairs(block.names) do wanted = wanted or used[name] end
        if #chosen > 0 and block.title or wanted then table.insert(chosen, 1, block) end
        if wanted then
            local seen = {}
            for n = #block.macros, 1, -1 do
                local name = block.macros[n]
                if not seen[name] then table.insert(macros, 1, name) end
                seen[name] = true
            end
            helpers.mark_words(block.text, used)
        end
    end
    local out, said, last = {}, {}, {}
    for _, block in ipairs(chosen) do
        local comment, body = block.text:match("^(/%*.-%*/\n)(.*)$")
        local meaning = comment
        for _, name in ipairs(block.names) do meaning = meaning or meanings[name] end
        -- macros of one line, and functions of one expression, with one meaning stand together
        local line = block.text:find("^#define [^\n]*\n$") or
            block.text:find("^static inline [^\n]*\n{ return [^}]*}*; }\n$")
        local together = line and last.line and meaning == last.meaning
        local again = meaning and said[meaning] and not block.title
        if #out > 0 and not together and not (last.title and not comment) then out[#out + 1] = "\n" end
        out[#out + 1] = (again and "" or meaning or "") .. (body or block.text)
        said[meaning or ""] = true
        last = { line = line, title = block.title, meaning = meaning }
    end
    return table.concat(out) .. "\n", macros
end

-- Coefficients of 2^f, ascending, minimax in the relative error: on [-1/2, 1/2] and on [0, 1), degree 5, and lower ones
-- for scores of whole numbers, _3 of i16 and _2 of i8. A test recomputes them (tests/unit/test_exp2.c).
helpers.EXP2_HALF = { 1.0000000717e+00, 6.9314696706e-01, 2.4022119724e-01,
    5.5507132735e-02, 9.6755413344e-03, 1.3276471998e-03 }
helpers.EXP2_UNIT = { 9.9999992506e-01, 6.9315307320e-01, 2.4015361704e-01,
    5.5826318055e-02, 8.9893400885e-03, 1.8775766760e-03 }
helpers.EXP2_HALF_2 = { 1.0004431420e+00, 7.0344800589e-01, 2.3842893576e-01 }
helpers.EXP2_UNIT_2 = { 1.0017247632e+00, 6.5763627574e-01, 3.3718943462e-01 }
helpers.EXP2_HALF_3 = { 9.9992807354e-01, 6.9326098546e-01, 2.4261112219e-01, 5.5171669058e-02 }
helpers.EXP2_UNIT_3 = { 9.9992521856e-01, 6.9583354049e-01, 2.2606715543e-01, 7.8024522641e-02 }

-- tanh(x) = x P(x^2) / Q(x^2), both ascending, minimax in the relative error for |x| <= TANH_LIMIT, past which tanh is
-- 1 but for 3e-8 (tests/unit/test_tanh.c).
helpers.TANH_LIMIT = 9
helpers.TANH_P = { 9.9999997949e-01, 1.3381024470e-01, 3.4955865873e-03,
    2.0609050803e-05, 1.3354605833e-08 }
helpers.TANH_Q = { 1, 4.6714340070e-01, 2.5876976729e-02, 3.2856320359e-04, 7.7765380790e-07 }

-- Phi(x) = 1/2 + x P(x^2) / Q(x^2), the share of a normal distribution below x, both ascending, minimax in the absolute
-- error for |x| <= GELU_LIMIT (7.2e-9, Lawson's iteration), below which x Phi(x) is 0 but for 1.1e-7
-- (tests/unit/test_gelu.c).
helpers.GELU_LIMIT = 5.5
helpers.GELU_P = { 3.9894223462e-01, 3.3852750865e-02, 4.6772670509e-03,
    1.6882672881e-04, 6.3521247363e-06, 2.2749323924e-08 }
helpers.GELU_Q = { 1, 2.5152218082e-01, 2.8645931344e-02,
    1.8844508072e-03, 7.3647838096e-05, 1.1975032186e-06 }

-- Parameters of an expression's function, and arguments of a call: only what the expression reads, and the score so
-- far, which other terms have made.
local function expression_list(nodes, s, i, p, j, packed)
    local root, list = nodes[#nodes], {}
    for _, of in ipairs { { root.type == "float", s }, { root.reads_table, packed }, { root.reads_i, i },
        { root.reads_p, p }, { root.reads_j, j } } do
        if of[1] then list[#list + 1] = of[2] end
    end
    return table.concat(list, ", ")
end
function helpers.expression_parameters(nodes)
    local list = expression_list(nodes, "vec s", "int64_t i", "int64_t p_0", "int64_t j", "const float *packed")
    return list ~= "" and list or "void"
end
function helpers.expression_arguments(nodes, s, p, j)
    return expression_list(nodes, s, "terms->head", p, j, "terms->packed")
end

-- The nodes that are needed to evaluate an expression by ranges of its integers, and their operations
function helpers.needed_by_ranges(nodes)
    local needed, used = { [#nodes] = true }, {}
    for k = #nodes, 1, -1 do
        local n = nodes[k]
        local known = n.operands == 0 or nodes[n.a].type ~= "float"
        for i = 1, needed[k] and known and n.operands or 0 do
            local of = n[("abc"):sub(i, i)]
            if nodes[of].type ~= "float" then needed[of] = true end
        end
        if needed[k] and known then used[n.op == "mul" and n.a == n.b and "square" or n.op] = true end
    end
    return needed, used
end

return helpers
