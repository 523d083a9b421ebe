"""What LoopTune's paper says of its policy, and the same numbers here; the bars of the policy."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from benchmarks.measure import geometric_mean
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
_WHO = ("policy", "policy8", "policy_general", "rule", "construction")

Attempts = Mapping[tuple[str, str], Row]


def is_search(label: str) -> bool:
    """Whether a label is that of a search with a budget."""
    return label.partition(" ")[0] in SEARCHES


def claims_text(judged: Mapping[str, Row], attempts: Attempts) -> str:
    """The claims of the paper beside the same numbers of ours, for those without a search."""
    present = [who for who in _WHO if any(who in row["times"] for row in judged.values())]
    head = f"{'claim of LoopTune of its policy':38s}{'paper':>10s}"
    lines = [head + "".join(f"{who:>16s}" for who in present)]
    for what, paper, other in CLAIMS:
        cells = [_claimed(judged, attempts, who, other) for who in present]
        lines.append(f"{what:38s}{paper:>10s}" + "".join(f"{cell:>16s}" for cell in cells))
    return "\n".join(lines)


def _claimed(judged: Mapping[str, Row], attempts: Attempts, who: str, other: str) -> str:
    own = {shape: row["times"] for shape, row in judged.items() if who in row["times"]}
    match other:
        case "searches":
            pairs = [(_best_search(t), t[who]) for t in own.values()]
            pairs = [(search, mine) for search, mine in pairs if search < float("inf")]
            if not pairs:
                return "no search"
            share = sum(mine < search for search, mine in pairs) / len(pairs)
            return f"{share:.0%}, {geometric_mean(s / mine for s, mine in pairs):.2f}"
        case "best":
            return _share([t[who] <= min(t.values()) for t in own.values()])
        case "near":
            return _share([t[who] <= min(t.values()) / 0.9 for t in own.values()])
        case "spent":
            spent = [attempts[s, who]["spent"] for s in own if (s, who) in attempts]
            return f"{median(spent):.4f}" if spent else "-"
    ratios = [t[other] / t[who] for t in own.values() if other in t]
    count = "" if len(ratios) == len(own) else f" ({len(ratios)})"
    return f"{geometric_mean(ratios):.3f}{count}" if ratios else "not measured"


def _best_search(times: Mapping[str, float], ending: str = "") -> float:
    found = [t for who, t in times.items() if is_search(who) and who.endswith(ending)]
    return min(found, default=float("inf"))


def _share(held: list[bool]) -> str:
    return f"{sum(held) / len(held):.0%}"


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
            words = f"within 2% of the best 60 s search on {_share(within)} of {len(long)} shapes"
            lines.append(f"{who}: {words}, in 1/100 of its time {_share(both)} (bar 80%)")
        short = {s: t for s, t in rows.items() if _best_search(t, " 1 s") < float("inf")}
        if short:
            above = [t[who] < _best_search(t, " 1 s") for t in short.values()]
            words = f"above every search of 1 s on {_share(above)} of {len(short)} shapes"
            lines.append(f"{who}: {words} (bar 80%)")
    return "\n".join(lines)


def _spent_best(shape: str, times: Mapping[str, float], attempts: Attempts) -> float:
    """Seconds that the best of the long searches took."""
    long = [who for who in times if is_search(who) and who.endswith(" 60 s")]
    best = min(long, key=lambda who: times[who])
    return float(attempts[shape, best]["spent"])
