# SPDX-License-Identifier: MIT
"""The picture of a run: shape x peer, the time of each peer's fastest formulation over ours."""
import report


def write(run, started):
    """ratio.svg, one panel for each number of threads. ImportError without matplotlib."""
    import matplotlib
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "attngen"
    import matplotlib.pyplot as plt

    peers = [p for p in report.peers_in_order(run.rows) if p != "ours"]
    counts = sorted({r["threads"] for r in run.rows if r["status"] == "ok"})
    if not peers or not counts:
        return
    found = report.groups(run.rows)
    shapes = list(dict.fromkeys(r["shape"] for r in run.rows))
    figure, panels = plt.subplots(len(counts), 1, squeeze=False, sharex=True, layout="constrained",
                                  figsize=(max(7, 3 + 0.42 * len(shapes)), 1.2 + 3.6 * len(counts)))
    for panel, threads in zip(panels[:, 0], counts):
        for number, peer in enumerate(peers):
            points = [(i, fastest[peer]["ratio"]) for i, shape in enumerate(shapes)
                      if "ratio" in (fastest := report.best(found.get((shape, threads), []))).get(peer, {})]
            panel.plot(*zip(*points) if points else ([], []), "osD^vPX*<>"[number % 10], label=peer, markersize=5)
        panel.axhline(1, color="black", linewidth=1)
        panel.set_yscale("log")
        panel.set_yticks([1, 2, 5, 10, 20, 50], ["1", "2", "5", "10", "20", "50"])
        panel.set_ylabel("time / ours")
        panel.set_title(f"{threads} thread{'s' * (threads > 1)}", loc="left", fontsize=10)
        panel.grid(axis="y", alpha=0.4)
    panels[-1, 0].set_xticks(range(len(shapes)), shapes, rotation=60, ha="right")
    panels[0, 0].legend(ncols=4, fontsize=8)
    figure.suptitle(f"Attention layers, f32: time over attngen's (above 1: slower)\n{run.cpu.model}, {started}", fontsize=10)
    figure.savefig(run.path("ratio.svg"), metadata={"Date": None})
    plt.close(figure)
