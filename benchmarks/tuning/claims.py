"""What LoopTune's paper says of its policy, and the same numbers here; the bars of the policy."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from benchmarks.tuning.intervals import mean_text, share_text
from benchmarks.tuning.results import Row
from loopwright.tuning.tree_search import SEARCHES

__all__ = ["bars_text", "claims_text"]

# What is claimed, the paper's number, and the contestant it is compared with ("": all).
CLAIMS = (
    ("beats the best search: shapes, times", "88%, 1.8", "searches"),
    ("best of all contestants", "67%", "best"),
    ("at least 90% of the best", "92%", "near"),
    ("times LoopNest's default (naive)", "3.2", "naive"),
    ("times TVM's default schedule", "43", "tvm_default"),
    ("times TVM's schedule by hand", "9.7", "tvm_hand"),
    ("times MetaSchedule, 64 trials", "2.8", "metaschedule"),
    ("times AutoTVM, 64 trials", "1.08", "autotvm"),
    ("times NumPy", "0.97", "numpy"),
    ("seconds of tuning", "1", "spent"),
)
_WHO = (
    "policy", "policy8", "policy_led 1 s",
    "policy_general", "policy_general8", "policy_general_led 1 s",
    "rule", "construction",
)  # fmt: skip

Attempts = Mapping[tuple[str, str], Row]


def is_search(label: str) -> bool:
    """Whether a label is that of a search with a budget."""
    return label.partition(" ")[0] in SEARCHES


def claims_text(judged: Mapping[str, Row], attempts: Attempts) -> str:
    """The claims of the paper beside the same numbers of ours, as a table of Markdown.

    Shares of shapes and geometric means have 95% intervals over shapes drawn anew; where a number
    is not of all shapes, how many there are.
    """
    present = [who for who in _WHO if any(who in row["times"] for row in judged.values())]
    head = ["claim of LoopTune of its policy", "paper", *present]
    lines = [head, ["---"] * len(head)]
    for what, paper, other in CLAIMS:
        lines.append([what, paper, *(_claimed(judged, attempts, who, other) for who in present)])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _claimed(judged: Mapping[str, Row], attempts: Attempts, who: str, other: str) -> str:
    own = {shape: row["times"] for shape, row in judged.items() if who in row["times"]}
    match other:
        case "searches":
            pairs = [(_best_search(t), t[who]) for t in own.values()]
            pairs = [(search, mine) for search, mine in pairs if search < float("inf")]
            if not pairs:
                return "no search"
            ahead = share_text([mine < search for search, mine in pairs])
            return f"{ahead}, {mean_text([search / mine for search, mine in pairs])}"
        case "best":
            return share_text([t[who] <= min(t.values()) for t in own.values()])
        case "near":
            return share_text([t[who] <= min(t.values()) / 0.9 for t in own.values()])
        case "spent":
            spent = [attempts[s, who]["spent"] for s in own if (s, who) in attempts]
            return f"{median(spent):.4f}" if spent else ""
    ratios = [t[other] / t[who] for t in own.values() if other in t]
    if not ratios:
        return "not measured"
    ahead = f", ahead on {share_text([ratio > 1 for ratio in ratios])}"
    count = "" if len(ratios) == len(own) else f" of {len(ratios)}"
    return mean_text(ratios) + ahead + count


def _best_search(times: Mapping[str, float], ending: str = "") -> float:
    found = [t for who, t in times.items() if is_search(who) and who.endswith(ending)]
    return min(found, default=float("inf"))


def bars_text(judged: Mapping[str, Row], attempts: Attempts) -> str:
    """The two bars of a policy that begins on the naive nest, for every one that there is."""
    lines = []
    for who in _WHO[:-1]:
        rows = {s: row["times"] for s, row in judged.items() if who in row["times"]}
        long = {s: t for s, t in rows.items() if _best_search(t, " 60 s") < float("inf")}
        if long:
            within = [t[who] <= 1.02 * _best_search(t, " 60 s") for t in long.values()]
            quick = [
                attempts[s, who]["spent"] <= _spent_best(s, long[s], attempts) / 100 for s in long
            ]
            both = [a and b for a, b in zip(within, quick, strict=True)]
            words = (
                f"within 2% of the best 60 s search on {share_text(within)} of {len(long)} shapes"
            )
            lines.append(f"{who}: {words}, in 1/100 of its time {share_text(both)} (bar 80%)")
        short = {s: t for s, t in rows.items() if _best_search(t, " 1 s") < float("inf")}
        if short:
            above = [t[who] < _best_search(t, " 1 s") for t in short.values()]
            words = f"above every search of 1 s on {share_text(above)} of {len(short)} shapes"
            lines.append(f"{who}: {words} (bar 80%)")
    return "\n".join(lines)


def _spent_best(shape: str, times: Mapping[str, float], attempts: Attempts) -> float:
    """Seconds that the best of the long searches took."""
    long = [who for who in times if is_search(who) and who.endswith(" 60 s")]
    best = min(long, key=lambda who: times[who])
    return float(attempts[shape, best]["spent"])
