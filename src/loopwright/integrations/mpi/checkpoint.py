"""The state of a run on disk after each step, in two generations, and how a run goes on from it.

Each rank writes its part beside and renames it; when all have, rank 0 does the same with a
manifest: the step, the problem's fingerprint, and the checksum of every part. A step is saved when
its manifest has its name. The step before stays until the next one is saved, so that a run that is
cut off at any moment leaves a whole step, and a part that was damaged sends the run back by one.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from loopwright.diagnostics import UsageError
from loopwright.integrations.mpi.communicator import Communicator, agree
from loopwright.lazy_dataclass import dataclass
from loopwright.runtime.array_arguments import Array

__all__ = ["Checkpoint", "SavedStep", "saved_steps"]

_FORMAT = 1
_GENERATIONS = 2
_MANIFEST = re.compile(r"step-(\d{8})\.json")


@dataclass(frozen=True, slots=True)
class SavedStep:
    """What a manifest says."""

    step: int  # steps that are done
    steps: int  # of so many
    fingerprint: str
    problem: Mapping[str, Any]  # what the fingerprint is of, for people
    parts: tuple[tuple[int, int], ...]  # bytes and checksum of the part of each rank


def saved_steps(folder: str | os.PathLike[str]) -> list[SavedStep]:
    """The steps that a folder holds, the last one first, without damaged manifests."""
    found = []
    for path in Path(folder).glob("step-*.json"):
        if _MANIFEST.fullmatch(path.name) is None:
            continue
        try:
            read = json.loads(path.read_text(encoding="utf-8"))
            parts = tuple((int(size), int(crc)) for size, crc in read["parts"])
            made = SavedStep(
                int(read["step"]), int(read["steps"]), read["fingerprint"], read["problem"], parts
            )
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if read.get("format") == _FORMAT:
            found.append(made)
    return sorted(found, key=lambda saved: -saved.step)


class Checkpoint:
    """The saved steps of one problem, as one rank sees them; all methods are collective."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        world: Communicator,
        problem: Mapping[str, Any],
        steps: int,
        every: int = 1,
    ) -> None:
        """`problem` is all that the state depends on, as JSON; each `every`-th step is saved."""
        self.folder = Path(folder)
        self._world = world
        self._problem = problem
        self._steps = steps
        self._every = every
        text = json.dumps(problem, sort_keys=True)
        self.fingerprint = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
        agree(world, lambda: self.folder.mkdir(parents=True, exist_ok=True))

    def restore(self, local: Array) -> int:
        """Overwrite the local array with the last sound step; how many steps are done, or 0.

        A checkpoint of another problem is refused.
        """
        listed = saved_steps(self.folder) if self._world.rank == 0 else []
        for saved in self._world.share(listed):
            if saved.fingerprint != self.fingerprint:
                raise UsageError(
                    f"the checkpoint in {self.folder} is of another problem",
                    found=_difference(saved.problem, self._problem),
                    hint="another folder, or --fresh to begin anew",
                )
            if all(self._world.collect(self._read(saved, local))):
                return int(saved.step)
        return 0

    def save(self, step: int, local: Array) -> None:
        """Write the local array as the state after `step` steps, where that step is to be saved."""
        if step % self._every and step != self._steps:
            return
        world = self._world
        part = agree(world, lambda: self._write(step, local))
        parts = world.collect(part)

        def commit() -> None:
            if world.rank == 0:
                self._commit(step, parts)

        agree(world, commit)
        self._remove_but(_GENERATIONS)

    def clear(self) -> None:
        """Remove all steps."""
        self._world.barrier()
        self._remove_but(0)
        self._world.barrier()

    def _part(self, step: int) -> Path:
        return self.folder / f"step-{step:08}.rank-{self._world.rank:05}"

    def _write(self, step: int, local: Array) -> tuple[int, int]:
        path = self._part(step)
        beside = path.with_name(path.name + ".part")
        with open(beside, "wb") as file:
            memory = _memory(local)
            file.write(memory)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
        return local.nbytes, zlib.crc32(memory)

    def _commit(self, step: int, parts: Any) -> None:
        path = self.folder / f"step-{step:08}.json"
        beside = path.with_name(path.name + ".part")
        content = {
            "format": _FORMAT,
            "step": step,
            "steps": self._steps,
            "fingerprint": self.fingerprint,
            "problem": self._problem,
            "parts": list(parts),
        }
        with open(beside, "w", encoding="utf-8") as file:
            json.dump(content, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)

    def _read(self, saved: SavedStep, local: Array) -> bool:
        """Whether this rank's part of a step was sound; the local array holds it then."""
        if len(saved.parts) != self._world.size:
            return False
        size, crc = saved.parts[self._world.rank]
        path = self._part(saved.step)
        try:
            if size != local.nbytes or path.stat().st_size != size:
                return False
            memory = _memory(local)
            with open(path, "rb") as file:
                if file.readinto(memory) != size:
                    return False
        except OSError:
            return False
        return zlib.crc32(memory) == crc

    def _remove_but(self, kept: int) -> None:
        """Remove all but the last steps: manifests by rank 0, parts by their ranks."""
        steps = [saved.step for saved in saved_steps(self.folder)] if self._world.rank == 0 else []
        steps = self._world.share(steps)[:kept]
        suffix = f".rank-{self._world.rank:05}"
        for path in list(self.folder.glob("step-*")):
            found = re.match(r"step-(\d{8})", path.name)
            if found is None or int(found[1]) in steps:
                continue
            is_manifest = path.name.endswith(".json") and self._world.rank == 0
            if is_manifest or path.name.endswith((suffix, f"{suffix}.part")):
                path.unlink(missing_ok=True)


def _memory(local: Array) -> memoryview:
    """The bytes of a C-contiguous array."""
    found: Any = local.reshape(-1).view(np.uint8)
    return memoryview(found)


def _difference(saved: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    """The first thing in which two problems differ."""
    asked = json.loads(json.dumps(asked))
    for key in sorted({*saved, *asked}):
        if saved.get(key) != asked.get(key):
            return f"{key} {saved.get(key)} there, {asked.get(key)} here"
    return "another fingerprint"
