/* SPDX-License-Identifier: MIT */
/* Plots of the table's rows, along the key that the reader chooses.
 *
 *   points    the rows that were measured: texts by the names of their columns
 *   keys      what was varied, and the machine where several took part: a name and its values
 *   view      x: the key along the axis; fixed: the value that a key is held at. Every other key makes lines
 *   figures   a plot for each quantity that changes along x
 *
 * All but the last part makes text of values and touches no document. Left out on purpose: numbers that the table lacks.
 */
"use strict";

const LINES_MOST = 12;       /* of a first view; the reader may ask for more */
const SPAN = 4;              /* from this ratio of the largest to the smallest on, an axis is logarithmic */
const TICKS = 6;             /* of the y axis, about */
const OVERSHOOT = 2;         /* times the largest median: what is drawn of the rest */
const SHAPES = ["M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z", "M-3.5-3.5h7v7h-7z", "M0-5l4.5 8h-9z", "M0-5L5 0 0 5-5 0z"];
const DASHES = ["none", "6 3", "2 3", "9 3 2 3"];
const HUES = 6;              /* --s1 … in page.css */
const HEIGHT = 270, LEFT = 62, RIGHT = 14, TOP = 10, BOTTOM = 42;

/* Units, falling, with what one of each is in the value's own unit. */
const COUNTS = [[1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];
const BYTES = [[2 ** 30, " GiB"], [2 ** 20, " MiB"], [2 ** 10, " KiB"], [1, " B"]];
const TIMES = [[1e6, " s"], [1e3, " ms"], [1, " µs"], [1e-3, " ns"]];
const SHARES = [[1e-2, " %"]];
const PARTS = Array.from({length: 12}, (_, i) => [10 ** -i, i > 0 ? "e-" + i : ""]);

/* What is drawn over x. `ends`: of the thin line through a mark, with their names; the first has a tick. */
const QUANTITIES = [
    {title: "Time of a call", units: TIMES, time: true, value: p => number(p, "us"),
     ends: [["minimum", p => number(p, "us_min")], ["upper quartile", p => number(p, "us_q3")]]},
    {title: "Share of peak", units: SHARES, share: true, value: p => number(p, "share"),
     ends: [["fastest call", fastestShare]]},
    {title: "Multiply-adds of a call", units: COUNTS, value: p => number(p, "multiply_adds"), ends: []},
    {title: "Parameters", units: COUNTS, value: p => number(p, "parameters"), ends: []},
    {title: "Packed weights", units: BYTES, value: p => number(p, "packed_bytes"), ends: []},
    {title: "From f32, rms", units: PARTS, value: p => number(p, "against_f32"), ends: []},
    {title: "From f32, largest", units: PARTS, value: p => number(p, "against_f32_largest"), ends: []},
    {title: "Scratch of one worker", units: BYTES, value: p => number(p, "scratch_bytes"), ends: []},
];

/* ---- values ---- */

/* Of a field; NaN where there is none. */
function number(point, name) {
    return point[name] === undefined || point[name] === "" ? NaN : Number(point[name]);
}

function escapeText(text) {
    return text.replace(/[&<>"'\n]/g, c => "&#" + c.charCodeAt(0) + ";");
}

function minimum(values) {
    return values.reduce((a, b) => Math.min(a, b), Infinity);
}

function maximum(values) {
    return values.reduce((a, b) => Math.max(a, b), -Infinity);
}

/* Three digits and a unit. */
function show(value, units) {
    const [size, name] = units.find(unit => Math.abs(value) >= unit[0]) || units[units.length - 1];
    return Number((value / size).toPrecision(3)) + name;
}

/* The shortest time's share of the median peak. */
function fastestShare(point) {
    return number(point, "gflops") * number(point, "us") / number(point, "us_min") / number(point, "peak_gflops");
}

/* The keys that have several values among the points. */
function keysOf(points, names) {
    const keys = names.map(name => {
        const values = [...new Set(points.map(p => p[name]))], numeric = points.every(p => isFinite(number(p, name)));
        return {name, numeric, values: numeric ? values.sort((a, b) => a - b) : values};
    });
    return keys.filter(key => key.values.length > 1);
}

/* Along x; keys whose values would make too many lines are held at their first one. */
function firstView(keys, x) {
    const fixed = new Map();
    let lines = 1;
    for (const key of keys.filter(key => key !== x))
        if (lines * key.values.length <= LINES_MOST)
            lines *= key.values.length;
        else
            fixed.set(key, key.values[0]);
    return {x, fixed, logarithmic: true};
}

/* "h = 4, width = wide" */
function sayValues(keys, point) {
    return keys.map(key => key.name + " = " + point[key.name]).join(", ");
}

/* ---- lines ---- */

/* Numbers run from blue to red, words have colours far apart. */
function colourOf(key, index) {
    if (key === undefined || !key.numeric)
        return `var(--s${index % HUES + 1})`;
    return `oklch(var(--tone) 0.15 ${(265 - 240 * index / (key.values.length - 1)).toFixed(0)})`;
}

/* The lines of a view. The key with the most values is told by colours, the others by shapes and dashes. */
function linesOf(points, keys, view) {
    const own = keys.filter(key => key !== view.x && !view.fixed.has(key)), lines = new Map(), rests = new Map();
    const first = own.reduce((one, key) => key.values.length > one.values.length ? key : one, own[0]);
    const others = own.filter(key => key !== first);
    for (const p of points) {
        if ([...view.fixed].some(([key, value]) => key !== view.x && p[key.name] !== value))
            continue;
        const id = JSON.stringify(own.map(key => p[key.name])), rest = JSON.stringify(others.map(key => p[key.name]));
        const index = first === undefined ? 0 : first.values.indexOf(p[first.name]);
        if (!rests.has(rest))
            rests.set(rest, rests.size);
        if (!lines.has(id))
            lines.set(id, {name: sayValues(own, p), colour: colourOf(first, index),
                           dash: DASHES[rests.get(rest) % DASHES.length],
                           shape: SHAPES[(others.length > 0 ? rests.get(rest) : index) % SHAPES.length],
                           order: own.map(key => key.values.indexOf(p[key.name])), points: []});
        lines.get(id).points.push(p);
    }
    const place = p => view.x.values.indexOf(p[view.x.name]);
    for (const line of lines.values())
        line.points.sort((a, b) => place(a) - place(b));
    return [...lines.values()].sort((a, b) => a.order.map((o, i) => o - b.order[i]).find(d => d !== 0) || 0);
}

/* ---- axes ---- */

/* Where a value lies between low, 0, and high, 1. */
function axis(low, high, logarithmic) {
    const at = logarithmic ? v => Math.log(v / low) / Math.log(high / low) : v => (v - low) / (high - low);
    return {low, high, logarithmic, at};
}

/* With room at both ends. */
function xAxis(lines, view) {
    const all = lines.flatMap(line => line.points.map(p => xOf(p, view.x)));
    if (!view.x.numeric)
        return axis(-0.5, view.x.values.length - 0.5, false);
    const low = minimum(all), high = maximum(all), pad = high > low ? 0.05 : 0.5;
    if (view.logarithmic && low > 0 && high >= SPAN * low)
        return axis(low * (low / high) ** pad, high * (high / low) ** pad, true);
    const room = pad * (high - low || 1);
    return axis(low - room, high + room, false);
}

function xOf(point, key) {
    return key.numeric ? number(point, key.name) : key.values.indexOf(point[key.name]);
}

/* From zero; or logarithmic, then over a factor of SPAN at least, so that noise does not look like a slope. */
function yAxis(quantity, lines, view) {
    const points = lines.flatMap(line => line.points), medians = points.map(quantity.value).filter(isFinite);
    const ends = quantity.ends.flatMap(end => points.map(end[1])).filter(isFinite);
    const low = minimum([...medians, ...ends]);
    const high = Math.min(maximum([...medians, ...ends]), OVERSHOOT * maximum(medians));
    if (!view.logarithmic || quantity.share || low <= 0 || !(quantity.time || high >= SPAN * low))
        return axis(0, 1.05 * high || 1, false);
    const room = Math.max(1.05, Math.sqrt(SPAN * low / high));
    return axis(end(low / room, -1, quantity.units === BYTES), end(high * room, 1, quantity.units === BYTES), true);
}

/* The next value above (1) or below (-1) that reads well at the end of a logarithmic axis: 1, 1.5, 2, 3, 5, 7 times a power
 * of ten, or a power of two. */
function end(value, way, binary) {
    const base = binary ? 2 : 10, power = base ** Math.floor(Math.log(value) / Math.log(base) + 1e-9);
    const steps = (binary ? [1, 2] : [1, 1.5, 2, 3, 5, 7, 10]).map(step => step * power);
    return way > 0 ? steps.find(step => step >= 0.999999 * value) : steps.filter(step => step <= 1.000001 * value).pop();
}

/* 1, 2, 5, 10 …, or powers of two: the first that is not far below `value`. */
function round(value, binary) {
    const base = binary ? 2 : 10, power = base ** Math.floor(Math.log(value) / Math.log(base));
    return power * (binary ? [1, 2] : [1, 2, 5, 10]).find(step => step * power >= 0.75 * value);
}

function ticksOf(axis, binary) {
    const ticks = [];
    if (axis.logarithmic) {
        const base = binary ? 2 : 10, log = v => Math.log(v) / Math.log(base), powers = log(axis.high / axis.low);
        const every = Math.ceil(powers / TICKS);
        const steps = binary || powers > 3 ? [1] : powers > 2 ? [1, 3] : powers > 1 ? [1, 2, 5] : [1, 1.5, 2, 3, 5, 7];
        for (let e = every * Math.floor(log(axis.low) / every); e <= log(axis.high); e += every)
            ticks.push(...steps.map(step => step * base ** e));
    } else {
        const step = round((axis.high - axis.low) / TICKS, binary);
        for (let i = Math.ceil(axis.low / step); i * step <= axis.high; i++)
            ticks.push(i * step);
    }
    const inside = ticks.filter(t => t >= axis.low && t <= axis.high);
    const bare = end => inside.every(t => Math.abs(axis.at(t) - axis.at(end)) > 0.07); /* no tick is near it */
    return [...[axis.low].filter(bare), ...inside, ...[axis.high].filter(bare)].filter(t => axis.logarithmic || inside.includes(t));
}

/* The values themselves; where numbers stand too close, round ones. Labels that would overlap are left out. */
function xTicks(axis, view, width) {
    const values = view.x.values, ends = [values[0], values[values.length - 1]];
    const own = view.x.numeric && values.length > 2 * TICKS
              ? [ends[0], ...ticksOf(axis, false)
                    .filter(t => t > Number(ends[0]) && t < Number(ends[1])), ends[1]]
                    .map(t => [Number(t), String(Number(Number(t).toPrecision(6)))])
              : values.map((value, i) => [view.x.numeric ? Number(value) : i, value]);
    const half = label => 3.8 * label.length + 3, last = own.length - 1;
    const limit = view.x.numeric ? axis.at(own[last][0]) * width - half(own[last][1]) : width; /* the last one stays */
    let free = -Infinity;
    return own.filter(([value, label], i) => {
        const at = axis.at(value) * width;
        const seen = at >= 0 && at <= width && at - half(label) >= free && (i === last || at + half(label) <= limit);
        free = seen ? at + half(label) : free;
        return seen;
    });
}

/* ---- a plot ---- */

/* What a reader sees who points at a mark. */
function tipOf(quantity, keys, point) {
    const ends = quantity.ends.filter(end => isFinite(end[1](point)));
    const text = [show(quantity.value(point), quantity.units),
                  ...ends.map(([name, value]) => name + " " + show(value(point), quantity.units))];
    return sayValues(keys, point) + "\n" + text.join(", ") +
           (quantity.ends.length > 0 && point.disturbed === "1" ? "\ndisturbed" : "");
}

/* For whoever does not see it. */
function describe(quantity, lines, keys, x) {
    const points = lines.flatMap(line => line.points).filter(p => isFinite(quantity.value(p)));
    const sorted = points.sort((a, b) => quantity.value(a) - quantity.value(b));
    const say = p => show(quantity.value(p), quantity.units) + " at " + sayValues(keys, p);
    return `${lines.length} ${lines.length > 1 ? "lines" : "line"} over ${x.name} from ${x.values[0]} to ` +
           `${x.values[x.values.length - 1]}; minimum ${say(sorted[0])}; maximum ${say(sorted[sorted.length - 1])}. ` +
           "All values are in the table.";
}

function svgText(x, y, anchor, words) {
    return `<text x="${x}" y="${y}" text-anchor="${anchor}">${escapeText(words)}</text>`;
}

/* The axes, lines across at the ticks of y, and what stands beside and below. */
function frame(x, y, quantity, view, width) {
    const right = width - RIGHT, bottom = HEIGHT - BOTTOM;
    const across = ticksOf(y, quantity.units === BYTES).map(t => {
        const at = bottom - y.at(t) * (bottom - TOP);
        return `<path class="grid" d="M${LEFT} ${at.toFixed(1)}H${right}"/>` +
               svgText(LEFT - 6, (at + 4).toFixed(1), "end", show(t, quantity.units));
    });
    const along = xTicks(x, view, right - LEFT).map(([t, label]) => {
        const at = (LEFT + x.at(t) * (right - LEFT)).toFixed(1);
        return `<path class="axis" d="M${at} ${bottom}v4"/>` + svgText(at, bottom + 17, "middle", label);
    });
    return across.join("") + along.join("") + `<path class="axis" d="M${LEFT} ${TOP}V${bottom}H${right}"/>` +
           svgText((LEFT + right) / 2, HEIGHT - 6, "middle", view.x.name);
}

function track(dash, path) {
    return `<path class="track" stroke-dasharray="${dash}" d="M${path}"/>`;
}

/* A line with its marks, smaller where they are many. Words along x have nothing between them. */
function drawLine(line, quantity, keys, view, placeX, placeY) {
    const size = Math.max(0.4, Math.min(1, 40 / line.points.length)).toFixed(2);
    const points = line.points.filter(p => isFinite(quantity.value(p)));
    if (points.length === 0)
        return "";
    const at = points.map(p => [placeX(p), placeY(quantity.value(p))]);
    const marks = points.map((p, i) => {
        const ends = quantity.ends.map(end => placeY(end[1](p))).filter(isFinite), [x, y] = at[i];
        const hollow = quantity.ends.length > 0 && p.disturbed === "1" ? " hollow" : "";
        return (ends.length > 0 ? `<path class="ends" d="M${x - 3} ${ends[0]}h6M${x} ${ends[0]}V${ends[1] || y}"/>` : "") +
               `<path class="mark${hollow}" d="${line.shape}" transform="translate(${x} ${y}) scale(${size})" ` +
               `data-tip="${escapeText(tipOf(quantity, keys, p))}"/>`;
    });
    return `<g style="color:${line.colour}">` + (view.x.numeric ? track(line.dash, at.map(a => a.join(" ")).join("L")) : "") +
           marks.join("") + "</g>";
}

function figure(quantity, index, lines, keys, view, width) {
    const x = xAxis(lines, view), y = yAxis(quantity, lines, view), fix = v => Number(v.toFixed(1));
    const apart = quantity.ends.length > 0 && lines.length <= 4 ? 3 : 0; /* so that thin lines do not hide each other */
    const placeX = (p, i) => fix(LEFT + x.at(xOf(p, view.x)) * (width - RIGHT - LEFT) + apart * (i - (lines.length - 1) / 2));
    const placeY = v => fix(HEIGHT - BOTTOM - Math.min(1, y.at(v)) * (HEIGHT - BOTTOM - TOP));
    const id = `plot${index}`, drawn = lines.map((line, i) => drawLine(line, quantity, keys, view, p => placeX(p, i), placeY));
    return `<figure><h3 id="${id}">${quantity.title} by ${escapeText(view.x.name)}</h3>` +
           `<svg role="img" aria-labelledby="${id}" aria-describedby="${id}-text" viewBox="0 0 ${width} ${HEIGHT}" ` +
           `width="${width}" height="${HEIGHT}"><desc id="${id}-text">` + escapeText(describe(quantity, lines, keys, view.x)) +
           "</desc>" + frame(x, y, quantity, view, width) + drawn.join("") + "</svg></figure>";
}

/* ---- all plots ---- */

function legend(lines) {
    const items = lines.map(line =>
        `<li><svg aria-hidden="true" width="30" height="12" style="color:${line.colour}">` + track(line.dash, "0 6H30") +
        `<path class="mark" d="${line.shape}" transform="translate(15 6)"/></svg> ${escapeText(line.name)}</li>`);
    return lines.length < 2 ? "" : `<ul class="legend">${items.join("")}</ul>`;
}

/* Whether a line has two values of it; where no line has two points, whether any two differ. */
function changes(quantity, lines) {
    const differ = points => new Set(points.map(quantity.value).filter(isFinite)).size > 1;
    return lines.some(line => line.points.length > 1) ? lines.some(line => differ(line.points))
                                                     : differ(lines.flatMap(line => line.points));
}

/* The legend, the plots, and what is to be known of them. */
function figures(points, keys, view, width) {
    const lines = linesOf(points, keys, view), drawn = QUANTITIES.filter(q => changes(q, lines));
    const still = QUANTITIES.filter(q => !drawn.includes(q) && points.some(p => isFinite(q.value(p))));
    const disturbed = lines.some(line => line.points.some(p => p.disturbed === "1"));
    const plots = drawn.map((q, i) => figure(q, i, lines, keys, view, width));
    return legend(lines) + `<div class="plots">${plots.join("")}</div><p class="soft">Marks are medians; the thin line of a time ` +
           "runs from the minimum to the upper quartile, that of a share to the fastest call's." +
           (disturbed ? " A hollow mark is disturbed." : "") +
           (still.length > 0 ? ` Not drawn, as it does not change along ${escapeText(view.x.name)} here: ` +
                               still.map(q => q.title.toLowerCase()).join(", ") + "." : "") + "</p>";
}

/* What the reader chooses: x, and for every other key a line each or one value. */
function controls(keys, view) {
    const option = (value, words, chosen) =>
        `<option value="${value}"${chosen ? ' selected="selected"' : ""}>${escapeText(words)}</option>`;
    const select = (name, label, options, hidden) =>
        `<label${hidden ? ' hidden="hidden"' : ""}>${escapeText(label)} <select name="${name}">${options.join("")}</select></label>`;
    const values = key => [option("", "a line each", !view.fixed.has(key)),
                           ...key.values.map((value, i) => option(i, value, view.fixed.get(key) === value))];
    return select("x", "x axis", keys.map((key, i) => option(i, key.name, key === view.x)), false) +
           keys.map((key, i) => select(`key${i}`, key.name, values(key), key === view.x)).join("") +
           '<label><input type="checkbox" name="logarithmic" checked="checked"/> logarithmic axes</label>';
}

/* ---- the page ---- */

function readTable(table) {
    const heads = [...table.tHead.rows[0].cells].map(head => head.dataset);
    const points = [...table.tBodies[0].rows].map(row => {
        const point = {...row.dataset};
        heads.forEach((head, i) => point[head.name] = row.cells[i].dataset.value);
        return point;
    }).filter(point => isFinite(number(point, "us")));
    return {points, keys: keysOf(points, heads.filter(head => "axis" in head).map(head => head.name))};
}

/* The mark that is closest to the pointer tells its values. */
function followPointer(place, tip) {
    const hide = () => tip.hidden = true;
    const distance = (mark, event) => {
        const box = mark.getBoundingClientRect();
        return Math.hypot(box.x + box.width / 2 - event.clientX, box.y + box.height / 2 - event.clientY);
    };
    const tell = event => {
        const svg = event.target.closest("figure svg"), marks = svg === null ? [] : [...svg.querySelectorAll(".mark")];
        const near = marks.map(mark => [distance(mark, event), mark]).sort((a, b) => a[0] - b[0])[0];
        tip.hidden = near === undefined || near[0] > 40;
        if (tip.hidden)
            return;
        tip.textContent = near[1].dataset.tip;
        tip.style.left = "0"; /* its width, as it is where there is room */
        tip.style.left = Math.max(8, Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8)) + "px";
        tip.style.top = Math.max(8, event.clientY - tip.offsetHeight - 12) + "px";
    };
    place.addEventListener("pointermove", tell);
    place.addEventListener("pointerdown", tell);
    place.addEventListener("pointerleave", hide);
    addEventListener("scroll", hide);
}

function begin() {
    const section = document.getElementById("plots");
    const {points, keys} = readTable(document.querySelector("#table table"));
    if (section === null || keys.length === 0)
        return;
    const past = keys.find(key => key.name === "past") || keys.find(key => key.name === "cache_len"); /* its times grow */
    let view = firstView(keys, past || keys.find(key => key.numeric) || keys[0]);
    const [form, place, tip] = ["form", "div", "div"].map(name => document.createElement(name));
    const draw = () => {
        place.innerHTML = `<div class="plots"><figure></figure></div>`; /* how wide is one? */
        const style = getComputedStyle(place.querySelector("figure"));
        const width = Math.floor(parseFloat(style.width) - 2 * parseFloat(style.paddingLeft) - 2);
        place.innerHTML = figures(points, keys, view, width);
    };
    form.autocomplete = "off";
    form.innerHTML = controls(keys, view);
    form.addEventListener("change", event => {
        if (event.target.name === "x")
            view = {...firstView(keys, keys[event.target.value]), logarithmic: view.logarithmic};
        keys.forEach((key, k) => {
            const select = form.elements["key" + k];
            if (event.target.name === "x")
                select.value = view.fixed.has(key) ? key.values.indexOf(view.fixed.get(key)) : "";
            else if (event.target === select && select.value !== "")
                view.fixed.set(key, key.values[select.value]);
            else if (event.target === select)
                view.fixed.delete(key);
            select.parentElement.hidden = key === view.x;
        });
        view.logarithmic = form.elements.logarithmic.checked;
        draw();
    });
    tip.id = "tip";
    tip.hidden = true;
    section.querySelector("p").remove();
    section.append(form, place, tip);
    addEventListener("resize", draw);
    followPointer(place, tip);
    draw();
}

if (typeof document !== "undefined")
    begin();
