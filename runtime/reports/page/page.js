/* SPDX-License-Identifier: MIT */
/* A click on a head sorts by its column; a second click turns the order round. Cells without a value come last. */
document.querySelectorAll("th button").forEach(function (button) {
    button.addEventListener("click", function () {
        const head = button.parentElement, row = head.parentElement, body = row.closest("table").tBodies[0];
        const column = Array.prototype.indexOf.call(row.children, head);
        const up = head.getAttribute("aria-sort") !== "ascending";
        const key = function (tr) { return tr.children[column].dataset.value; };
        const compare = function (a, b) {
            const l = key(a), r = key(b);
            if (l === "" || r === "")
                return (l === "") - (r === "");
            const order = isNaN(l) || isNaN(r) ? l.localeCompare(r) : l - r;
            return up ? order : -order;
        };
        Array.prototype.slice.call(body.rows).sort(compare).forEach(function (tr) { body.appendChild(tr); });
        Array.prototype.forEach.call(row.children, function (th) { th.setAttribute("aria-sort", "none"); });
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
    });
});
