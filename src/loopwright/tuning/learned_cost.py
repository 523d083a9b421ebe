"""A learned correction of the closed form: how much longer a tree takes than predicted, in log2.

    log2(t / roofline) = log2(closed form / roofline) + correction(columns of the tree)

Three sets of boosted trees, each fitted to four fifths of the programs, give the correction (their
mean). How sure it is follows from their spread and from the error of each on the programs that it
has not seen. A correction is of the machine whose times it was fitted to; files hold arrays only,
and are checked before anything of them is used.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from loopwright.diagnostics import UsageError
from loopwright.ir.machine import Machine
from loopwright.lazy_dataclass import dataclass
from loopwright.tuning.boosted_trees import BoostedTrees, Boosting, fit_trees, predictions
from loopwright.tuning.loop_tree import LoopTree
from loopwright.tuning.tree_cost import model_of, predict_seconds
from loopwright.tuning.tree_features import TREE_COLUMNS, tree_row

__all__ = ["CostSamples", "LearnedCost", "fit_cost", "load_cost"]

_MEMBERS = 3
_SHARE = 0.8  # of the programs that a member sees
_HOW = Boosting(trees=100, depth=5, rate=0.2)
_FORMAT = 1
_MOST_BYTES = 1 << 20
_MOST_TREES, _MOST_DEPTH = 2000, 8
_LARGEST = 10.0  # of a correction: beyond a thousandfold it is not one


@dataclass(frozen=True, slots=True, eq=False)
class LearnedCost:
    """The correction of one machine."""

    members: tuple[BoostedTrees, ...]
    machine: str  # LLVM's name of the processor
    error: float  # root mean square of log2(t / corrected) on programs that a member has not seen

    def correction(self, rows: Any) -> tuple[Any, Any]:
        """The mean correction of each row of `tree_row`, in log2, and the members' spread."""
        found = predictions(self.members, rows)
        return found.mean(axis=0), found.std(axis=0)

    def seconds(self, trees: Sequence[LoopTree], machine: Machine, threads: int = 1) -> Any:
        """Seconds of trees, corrected where the correction is for this machine."""
        model = model_of(machine)
        costs = [model.cost(tree, threads) for tree in trees]
        closed = np.array([cost.seconds for cost in costs])
        if machine.llvm_cpu != self.machine or not len(trees):
            return closed
        # Trees of one program that have the same code have the same costs, and one row.
        keys = [
            (id(tree.arrays), cost.cycles, *map(id, cost.nests))
            for tree, cost in zip(trees, costs, strict=True)
        ]
        firsts = dict(zip(reversed(keys), reversed(trees), strict=True))
        rows = np.stack([tree_row(tree, machine, threads) for tree in firsts.values()])
        numbers = {key: at for at, key in enumerate(firsts)}
        return closed * 2.0 ** self.correction(rows)[0][[numbers[key] for key in keys]]

    def predict(self, tree: LoopTree, machine: Machine, threads: int = 1) -> tuple[float, float]:
        """Seconds of a tree, and the factor that it is wrong by in two of three cases."""
        closed = predict_seconds(tree, machine, threads)
        if machine.llvm_cpu != self.machine:
            return closed, float("inf")
        mean, spread = self.correction(tree_row(tree, machine, threads)[None])
        return float(closed * 2.0 ** mean[0]), float(2.0 ** np.hypot(spread[0], self.error))

    def save(self, path: Path) -> None:
        """Write the arrays to a file."""
        path.write_bytes(self.to_bytes())

    def to_bytes(self) -> bytes:
        """The arrays as a .npz."""
        arrays: dict[str, Any] = {
            "format": np.array(_FORMAT),
            "error": np.array(self.error),
            "machine": np.frombuffer(self.machine.encode(), np.uint8),
            "columns": np.frombuffer("\n".join(TREE_COLUMNS).encode(), np.uint8),
        }
        for number, member in enumerate(self.members):
            arrays[f"columns.{number}"] = member.columns
            arrays[f"limits.{number}"] = member.limits
            arrays[f"leaves.{number}"] = member.leaves
            arrays[f"base.{number}"] = np.array(member.base)
        memory = io.BytesIO()
        np.savez_compressed(memory, **arrays)
        return memory.getvalue()


class CostSamples:
    """Measured trees of one machine: what a correction is fitted to."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.rows: list[Any] = []  # of `tree_row`
        self.seconds: list[float] = []
        self.predicted: list[float] = []  # seconds of the closed form
        self.groups: list[str] = []  # names of programs
        self._known: set[bytes] = set()

    def __len__(self) -> int:
        return len(self.rows)

    def add(self, tree: LoopTree, seconds: float, group: str) -> None:
        """Keep one tree; one whose time is no number is left out, and one that is known."""
        predicted = predict_seconds(tree, self.machine)
        is_number = np.isfinite(seconds) and np.isfinite(predicted)
        if not is_number or min(seconds, predicted) <= 0:
            return
        self._keep(tree_row(tree, self.machine), seconds, predicted, group)

    def _keep(self, row: Any, seconds: float, predicted: float, group: str) -> None:
        key = row.tobytes()
        if key in self._known:
            return
        self._known.add(key)
        self.rows.append(row)
        self.seconds.append(seconds)
        self.predicted.append(predicted)
        self.groups.append(group)

    def fit(self, seed: int = 0) -> LearnedCost:
        """The correction that these samples teach."""
        given = np.stack(self.rows), self.seconds, self.predicted, self.groups
        return fit_cost(*given, self.machine.llvm_cpu, seed=seed)

    @property
    def spread(self) -> float:
        """Standard deviation of log2(measured / closed form): what there is to learn."""
        return float(np.log2(np.array(self.seconds) / np.array(self.predicted)).std())

    def arrays(self) -> dict[str, Any]:
        """The samples for a file, without pickled objects."""
        return {
            "rows": np.stack(self.rows) if self.rows else np.zeros((0, len(TREE_COLUMNS))),
            "times": np.array([self.seconds, self.predicted], np.float64),
            "groups": np.array(self.groups, np.str_),
        }

    def restore(self, arrays: dict[str, Any]) -> None:
        """Take the samples of a file."""
        rows, times, groups = arrays["rows"], arrays["times"], arrays["groups"]
        if rows.shape != (len(groups), len(TREE_COLUMNS)) or times.shape != (2, len(groups)):
            raise ValueError("samples of other shapes")
        for row, seconds, predicted, group in zip(rows, *times, groups, strict=True):
            self._keep(row, float(seconds), float(predicted), str(group))


def fit_cost(
    rows: Any,
    seconds: Any,
    predicted: Any,
    groups: Sequence[str],
    machine: str,
    *,
    seed: int = 0,
    how: Boosting = _HOW,
) -> LearnedCost:
    """Fit a correction to measured samples.

    `rows` are those of `tree_row`, `predicted` the seconds of the closed form, and `groups` name
    the program of each sample: a member sees all samples of a program or none.
    """
    target = np.log2(np.asarray(seconds, np.float64) / np.asarray(predicted, np.float64))
    names, group = np.unique(np.asarray(groups), return_inverse=True)
    members, errors = [], []
    for number in range(_MEMBERS):
        random = np.random.default_rng([seed, number])
        seen = random.permutation(len(names)) < max(1, round(_SHARE * len(names)))
        picked = seen[group]
        member = fit_trees(np.asarray(rows)[picked], target[picked], seed + number, how)
        members.append(member)
        if not picked.all():
            errors.append(target[~picked] - member.predict(np.asarray(rows)[~picked]))
    error = float(np.sqrt(np.mean(np.concatenate(errors) ** 2))) if errors else 1.0
    return LearnedCost(tuple(members), machine, error)


def load_cost(source: Path | bytes) -> LearnedCost:
    """Read what `save` wrote; raises UsageError where anything of it is not as it must be."""
    try:
        data = source if isinstance(source, bytes) else _read(source)
        if len(data) > _MOST_BYTES:
            raise ValueError(f"more than {_MOST_BYTES} bytes")
        with zipfile.ZipFile(io.BytesIO(data)) as inside:
            if sum(entry.file_size for entry in inside.infolist()) > 16 * _MOST_BYTES:
                raise ValueError("arrays are too large")
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            return _checked({name: arrays[name] for name in arrays.files})
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        found = str(error) or type(error).__name__
        raise UsageError("not a learned cost model", found=found[:200]) from error


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_MOST_BYTES + 1)


def _checked(arrays: dict[str, Any]) -> LearnedCost:
    """The model of some arrays; raises ValueError or KeyError."""
    if int(arrays["format"]) != _FORMAT:
        raise ValueError(f"format {int(arrays['format'])}, not {_FORMAT}")
    if bytes(arrays["columns"].astype(np.uint8)).decode() != "\n".join(TREE_COLUMNS):
        raise ValueError("other columns than those of this version")
    members = []
    for number in range(_MEMBERS):
        columns = _array(arrays[f"columns.{number}"], "i", 2)
        limits = _array(arrays[f"limits.{number}"], "f", 2)
        leaves = _array(arrays[f"leaves.{number}"], "f", 2)
        base = float(arrays[f"base.{number}"])
        trees, width = leaves.shape
        depth = width.bit_length() - 1
        if not 1 <= trees <= _MOST_TREES or not 1 <= depth <= _MOST_DEPTH or width != 1 << depth:
            raise ValueError(f"{trees} trees of {width} leaves")
        if columns.shape != limits.shape or columns.shape != (trees, width - 1):
            raise ValueError("arrays of different shapes")
        if columns.min() < 0 or columns.max() >= len(TREE_COLUMNS):
            raise ValueError("a column that samples do not have")
        # Only limits may be infinite: of nodes that are not split.
        is_bad = np.isnan(limits).any() or np.isneginf(limits).any()
        if is_bad or not np.isfinite(leaves).all() or not np.isfinite(base):
            raise ValueError("numbers that are not finite")
        if abs(base) + np.abs(leaves).max(axis=1).sum() > _LARGEST * 10:
            raise ValueError("corrections that are too large")
        members.append(BoostedTrees(columns, limits, leaves, base, len(TREE_COLUMNS)))
    machine = bytes(arrays["machine"].astype(np.uint8)).decode("ascii")
    error = float(arrays["error"])
    if not 0.0 <= error <= _LARGEST:
        raise ValueError("an error that is none")
    return LearnedCost(tuple(members), machine, error)


def _array(array: Any, kind: str, rank: int) -> Any:
    if array.dtype.kind != kind or array.ndim != rank or not array.size:
        raise ValueError(f"an array of {array.dtype} with {array.ndim} dimensions")
    return array
