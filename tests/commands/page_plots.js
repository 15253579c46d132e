// SPDX-License-Identifier: MIT
// node page_plots.js CASE PAGE: what the scripts of a page draw, a line a check, "ok TEXT" or "not TEXT: what there is".
//
// The table is read from the page's text and handed to its scripts as the few objects that they touch; what they draw is
// text. test_page.sh makes the pages.
"use strict";
const [, , name, path] = process.argv;
const page = require("fs").readFileSync(path, "utf8");

const plain = text => text.replace(/&(amp|lt|gt|quot|#(\d+));/g, (all, word, code) =>
    code !== undefined ? String.fromCharCode(code) : {amp: "&", lt: "<", gt: ">", quot: '"'}[word]);
const dataset = tag => Object.fromEntries([...tag.matchAll(/ data-([a-z0-9_]+)="([^"]*)"/g)].map(m => [m[1], plain(m[2])]));
const cells = row => ({dataset: dataset(row.split(">")[0]),
                       cells: [...row.matchAll(/<t[hd][^>]*>/g)].map(m => ({dataset: dataset(m[0])}))});
const rows = part => page.match(new RegExp(`<${part}>[^]*</${part}>`))[0].split("<tr").slice(1).map(cells);
const table = {tHead: {rows: rows("thead")}, tBodies: [{rows: rows("tbody")}]};

// An element remembers what is done with it.
const element = () => ({heard: {}, style: {}, innerHTML: "", children: [], elements: new Proxy({logarithmic: {checked: true}}, {
    get: (all, key) => all[key] = all[key] || {name: key, value: "", parentElement: {}}}),
    append(...all) { this.children.push(...all); }, addEventListener(what, act) { this.heard[what] = act; },
    querySelector: () => element(), remove() {}});
const section = page.includes('id="plots"') ? element() : null;
const document = {getElementById: () => section, createElement: element, querySelector: () => table, querySelectorAll: () => []};
const script = page.match(/<script>([^]*)<\/script>/)[1];
new Function("document", "getComputedStyle", "addEventListener", "innerWidth", script)(
    document, () => ({width: "426px", paddingLeft: "12px"}), () => {}, 1280);
const [form, place] = section !== null ? section.children : [];
const choose = (control, value) => {
    form.elements[control][control === "logarithmic" ? "checked" : "value"] = value;
    form.heard.change({target: Object.assign(form.elements[control], {name: control})});
};

const check = (text, good, found) => console.log(good ? `ok ${text}` : `not ${text}: ${JSON.stringify(found)}`);
const same = (text, found, wanted) => check(text, JSON.stringify(found) === JSON.stringify(wanted), found);
const all = (pattern, text) => [...text.matchAll(pattern)].map(m => m.slice(1).map(plain));
const figures = () => place.innerHTML.split("<figure>").slice(1);
const titles = () => all(/<h3[^>]*>(.*?) by /g, place.innerHTML).flat();
const figure = title => figures().find(text => text.includes(`>${title} by `)) || "";
const lines = text => text.split('<g style="').slice(1);
const marks = text => all(/class="mark[^"]*" d="[^"]*" transform="translate\((\S+) (\S+)\)[^"]*" data-tip="([^"]*)"/g, text)
    .map(([x, y, tip]) => ({x: Number(x), y: Number(y), tip}));
const labels = (text, anchor) => new Map(all(new RegExp(
    `<text x="([^"]*)" y="([^"]*)" text-anchor="${anchor}">([^<]*)</text>`, "g"), text).map(([x, y, label]) =>
    [label, anchor === "end" ? y - 4 : Number(x)]));
const close = (a, b, max) => Math.abs(a - b) <= max;

const cases = {
    // h = 4, 8 × past = 0, 64, 1024: us = h (past + 16) / 16
    context() {
        const time = figure("Time of a call");
        same("times by past", all(/<h3[^>]*>(.*?)</g, place.innerHTML).flat(), ["Time of a call by past"]);
        same("a line for each h", lines(time).length, 2);
        same("a mark for each point", marks(time).length, 6);
        check("which tells its time", marks(time).some(m => m.tip.startsWith("h = 8, past = 1024\n520 µs")), marks(time));
        const rising = lines(time).map(text => marks(text).map(m => m.y));
        check("longer contexts take longer", rising.every(y => y[0] > y[1] && y[1] > y[2]), rising);
    },
    // h = 1, 2, 4, 8 × width × n = 8, 128: us = n h / 8 (narrow), n h / 4 (wide); one point is disturbed
    three() {
        const all_titles = ["Time of a call", "Share of peak", "Multiply-adds of a call", "Parameters", "Scratch of one worker"];
        same("every key can be x", all(/<option value="\d"[^>]*>([^<]*)</g, form.innerHTML.split("</select>")[0]).flat(),
             ["h", "width", "n"]);
        same("the others have a line each or one value", all(/<option value="\d?"[^>]*>([^<]*)</g, form.innerHTML.split("</select>")[3]).flat(),
             ["a line each", "8", "128"]);
        same("one plot a quantity", titles(), all_titles);
        const time = figure("Time of a call"), at = labels(time, "middle"), up = labels(time, "end");
        same("a line for each of the others", lines(time).length, 4);
        same("a mark for each point", marks(time).length, 16);
        same("and in each plot", figures().map(text => marks(text).length), Array(5).fill(16));
        const parameters = marks(figure("Parameters"));
        check("a value lies at its label along x", parameters.every(m => close(m.x, at.get(m.tip.match(/h = (\d)/)[1]), 0.2)), parameters);
        const x = [1, 2, 4, 8].map(h => at.get(String(h)));
        check("h is logarithmic", close(x[1] - x[0], x[2] - x[1], 0.3) && close(x[2] - x[1], x[3] - x[2], 0.3) && x[1] > x[0], x);
        const labelled = marks(time).filter(m => up.has(m.tip.split("\n")[1].split(",")[0]));
        check("a time lies at its label", labelled.length > 0 && labelled.every(m => close(m.y, up.get(m.tip.split("\n")[1].split(",")[0]), 0.2)),
              [labelled, [...up]]);
        const tracks = all(/class="track"[^>]* d="M([^"]*)"/g, figures().join("")).map(([d]) => d.split("L").map(parseFloat));
        check("lines run from left to right", tracks.length === 20 && tracks.every(t => t.every((at, i) => i === 0 || at > t[i - 1])), tracks);
        const ticks = [...up.values()].sort((a, b) => a - b), [top, low] = [10, 228]; /* TOP, HEIGHT - BOTTOM of plots.js */
        check("logarithmic axes have ticks at their ends", ticks[0] - top < 0.08 * (low - top) && low - ticks.at(-1) < 0.08 * (low - top),
              ticks);
        const by_tip = key => marks(time).find(m => m.tip.startsWith(key)).y;
        const y = [1, 2, 4, 8].map(h => by_tip(`h = ${h}, width = narrow, n = 8\n`));
        check("times are logarithmic", close(y[0] - y[1], y[1] - y[2], 0.3) && close(y[1] - y[2], y[2] - y[3], 0.3) && y[0] > y[1], y);
        check("a mark tells its values", marks(time).some(m => m.tip ===
              "h = 2, width = wide, n = 128\n64 µs, minimum 57.6 µs, upper quartile 70.4 µs"), marks(time)[9]);
        same("the disturbed one is hollow in its times", figures().map(text => text.split("mark hollow").length - 1), [1, 1, 0, 0, 0]);
        check("and says so", marks(time).filter(m => m.tip.endsWith("\ndisturbed")).length === 1, 0);
        check("and below", place.innerHTML.includes("A hollow mark is disturbed."), 0);
        const ends = all(/class="ends" d="M\S+ (\S+)h6M\S+ \S+V(\S+)"/g, time).map(pair => pair.map(Number));
        check("the minimum is beside each median", ends.length === 16 && ends.every((e, i) => e[0] > marks(time)[i].y && e[1] < marks(time)[i].y), ends);
        check("a share's fastest call is above it", all(/class="ends" d="M\S+ (\S+)h6/g, figure("Share of peak"))
              .every((e, i) => Number(e[0]) <= marks(figure("Share of peak"))[i].y), 0);
        const legend = all(/<li>.*?<\/svg> (.*?)<\/li>/g, place.innerHTML).flat();
        same("the legend names the lines", legend, ["width = narrow, n = 8", "width = narrow, n = 128",
             "width = wide, n = 8", "width = wide, n = 128"]);
        same("a colour for each n", new Set(lines(time).map(line => line.split('"')[0])).size, 2);

        choose("logarithmic", false);
        const even = labels(figure("Time of a call"), "middle");
        check("linear at will", close((even.get("8") - even.get("4")) / (even.get("2") - even.get("1")), 4, 0.1), [...even]);
        const steps = [...labels(figure("Time of a call"), "end").values()];
        check("with some even steps", steps.length >= 4 && steps.length <= 9 &&
              steps.every((at, i) => i < 2 || close(at - steps[i - 1], steps[1] - steps[0], 0.2)), steps);
        check("linear times begin at zero", [...labels(figure("Time of a call"), "end").keys()][0].startsWith("0 "), 0);
        choose("logarithmic", true);

        choose("x", "2");
        same("along n only what changes with it", titles(), ["Time of a call", "Share of peak", "Multiply-adds of a call"]);
        check("the rest is named", place.innerHTML.includes("does not change along n here: parameters, scratch of one worker."),
              place.innerHTML.slice(-300));
        same("along n a line for each h and width", lines(figure("Time of a call")).length, 8);
        choose("key0", "1");
        same("h held at 2", marks(figure("Time of a call")).map(m => m.tip.slice(0, 5)), Array(4).fill("h = 2"));
        choose("key0", "");
        same("and back", marks(figure("Time of a call")).length, 16);
        choose("x", "1");
        const words = figure("Time of a call");
        check("words along x have nothing between them", !words.includes('class="track"') && marks(words).length === 16, 0);
        same("words stand below", [...labels(words, "middle").keys()].slice(0, 2), ["narrow", "wide"]);

        const ids = all(/ id="([^"]*)"/g, place.innerHTML).flat(), used = all(/aria-(?:labelledby|describedby)="([^"]*)"/g, place.innerHTML).flat();
        check("each plot is an image", figures().every(text => /<svg role="img" aria-labelledby="\S+" aria-describedby="\S+"/.test(text)), 0);
        check("its names are there, once", new Set(ids).size === ids.length && used.every(id => ids.includes(id)), [ids, used]);
        check("a description has the minimum and the maximum", figure("Time of a call").includes(
              "minimum 1 µs at h = 1, width = narrow, n = 8; maximum 256 µs at h = 8, width = wide, n = 128."), figure("Time of a call").slice(0, 600));
        require("fs").writeFileSync("drawn.xml", `<all>${form.innerHTML}${place.innerHTML}</all>`);
    },
    // machines and words with every character that means something
    odd() {
        const strange = "O'Brien's \"<b>\" & ünï </script>";
        same("a machine is a key", all(/<option value="\d"[^>]*>([^<]*)</g, form.innerHTML.split("</select>")[0]).flat(), ["h", "cpu"]);
        check("its name comes back whole", all(/<\/svg> (.*?)<\/li>/g, place.innerHTML).flat().includes("cpu = " + strange), place.innerHTML.slice(0, 500));
        check("in a tip too", marks(figure("Time of a call")).some(m => m.tip.includes(`cpu = ${strange}\n`)), 0);
        check("and nothing of it is markup", !place.innerHTML.includes("<b>") && !form.innerHTML.includes("<b>"), 0);
        require("fs").writeFileSync("drawn.xml", `<all>${form.innerHTML}${place.innerHTML}</all>`);
    },
    // 66 words beside 30 values of n: one of the words, and round numbers along n
    many() {
        const time = figure("Time of a call");
        same("more lines than can be read: one", lines(time).length, 1);
        same("with all of its points", marks(time).length, 30);
        check("fewer labels than points", labels(time, "middle").size < 14, [...labels(time, "middle")]);
        choose("key1", "");
        same("all lines, where they are asked for", lines(figure("Time of a call")).length, 66);
        choose("x", "1");
        check("labels of words do not overlap", labels(figure("Time of a call"), "middle").size < 20, 0);
    },
    // results that lack fields
    old() {
        same("what is there is drawn", titles(), ["Time of a call"]);
        check("no number is made up", !place.innerHTML.includes("NaN") && !place.innerHTML.includes("undefined"), place.innerHTML);
        same("no end of a line without its field", all(/class="ends"/g, place.innerHTML).length, 0);
    },
    none() { same("no section, no plots", section, null); },
};
cases[name]();
