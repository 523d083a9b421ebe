"""ReadInPlace: cores in step read old values from the array itself, and meet before they put.

A copy of what an array held before (`transform/copy_live_in`) lets loops run in any order. Cores
that run the same tiles at the same time have an order nevertheless, that of their turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

from loopwright.analysis.scratchpad_boxes import (
    accesses_in,
    box_around,
    elements_of,
    loop_values,
    whole_rows,
)
from loopwright.ir.access_names import NamedAccess, named_accesses
from loopwright.ir.expr import Load
from loopwright.ir.islkit import context, isl
from loopwright.ir.loops import Axis, Mark
from loopwright.ir.program import Role, Statement
from loopwright.ir.schedule import DroppedCopy, Schedule, StagedBox
from loopwright.ir.schedule_tree import Band, nodes_of, path_to
from loopwright.ir.schedule_tree import Sequence as InOrder
from loopwright.lazy_dataclass import dataclass
from loopwright.transform.stage_box import elements_inside
from loopwright.transform.step import Step, refuse

__all__ = ["ReadInPlace"]

_IN, _OUT, _SET = isl.dim_type.in_, isl.dim_type.out, isl.dim_type.set
_MAPPED = 2  # loops that are dealt out: to rows and to columns


@dataclass(frozen=True, slots=True)
class ReadInPlace(Step):
    """Do without a copy of an array: its parts come from the array, before anybody puts to it.

    rewrite:  for x: for y: B_old[x, y] = B[x, y]
              for i_t: for j_t:  on cores
                  B_box = B[i_t, j_t]
                  for k_t: B_old_box = B_old[k_t, j_t]; S(B_box, B_old_box)
                  B[i_t, j_t] = B_box
              ->  for i_t: for j_t:  on cores
                      B_box = B[i_t, j_t]
                      for k_t: B_old_box = B[k_t, j_t]; S(B_box, B_old_box)
                      barrier; B[i_t, j_t] = B_box
    needs:    cores in step: all reads of the copy are of boxes that cores share; all writes of the
              array are of boxes that are put back once in a turn of the cores; no element is read
              in a later turn than one that puts it
    refuses:  IllegalStep with what is missing
    """

    kind: ClassVar[str] = "read_in_place"

    copy: str  # the array that holds the copy

    def apply(self, schedule: Schedule) -> Schedule:
        copied = self._copied(schedule)
        array = copied.reads[0].array
        shared = [box for box in schedule.boxes if box.array == self.copy and box.panel is not None]
        put = [box for box in schedule.boxes if box.array == array and box.is_put_back]
        reads, writes = self._accesses(schedule, copied, array)
        staged = {name for box in shared for name in box.accesses}
        if not reads or any(one.name not in staged for one in reads):
            refuse(self, f"some access reads '{self.copy}' from no box that cores share")
        mapped = self._mapped(schedule, shared)
        inner = mapped[-1].loop
        staged = {name for box in put if box.loop == inner for name in box.accesses}
        if any(one.name not in staged for one in writes):
            refuse(self, f"some access writes '{array}' in no box of loop '{inner}'")
        turns = self._turns(schedule, mapped)
        out = isl.Map.empty(isl.Space.map_from_domain_and_range(*_spaces(schedule, put[0])))
        for box in put:
            whole = box_around(schedule, box.elements)
            out = out.union(whole.reset_tuple_id(_OUT)).coalesce()
        out = out.apply_domain(turns)
        used = isl.Map.empty(out.get_space())
        moved = isl.Map.empty(out.get_space())
        for box in shared:
            assert box.panel is not None
            used = used.union(self._used(schedule, box, turns))
            moved = moved.union(self._moved(schedule, box.panel, turns))
        if not _comes_first(used, out):
            refuse(self, f"'{array}' is read in a turn behind one that puts the element")
        found = DroppedCopy(self.copy, array, is_closed=not _comes_first(moved, out))
        return replace(schedule, in_place=(*schedule.in_place, found))

    def _copied(self, schedule: Schedule) -> Statement:
        """The statement that makes the copy."""
        program = schedule.program
        memory = next((a for a in program.arrays if a.name == self.copy), None)
        if memory is None or memory.role is not Role.LOCAL:
            refuse(self, f"there is no local array '{self.copy}'")
        if self.copy in {one.copy for one in schedule.in_place}:
            refuse(self, f"'{self.copy}' is read in place already")
        makers = [s for s in program.statements if s.write.array == self.copy]
        if len(makers) != 1:
            refuse(self, f"no single statement makes '{self.copy}'")
        (made,) = makers
        value = made.value
        if not isinstance(value, Load) or value.index != made.write.index:
            refuse(self, f"'{self.copy}' is no copy of an array")
        source = program.array(value.array)
        if source.shape != memory.shape or source.dtype != memory.dtype:
            refuse(self, f"'{self.copy}' lies otherwise in memory than '{source.name}'")
        root = nodes_of(schedule)
        first = root.filters[0].child if isinstance(root, InOrder) else root
        if not isinstance(first, Band) or first.statements != frozenset({made.name}):
            refuse(self, f"'{self.copy}' is not made first, in loops of its own")
        return made

    def _accesses(
        self, schedule: Schedule, copied: Statement, array: str
    ) -> tuple[list[NamedAccess], list[NamedAccess]]:
        """The reads of the copy, and the writes of the array."""
        every = [one for s in schedule.program.statements for one in named_accesses(s)]
        reads = [one for one in every if one.access.array == self.copy and not one.is_write]
        writes = [one for one in every if one.access.array == array and one.is_write]
        if any(one.statement == copied.name for one in writes):
            refuse(self, f"'{self.copy}' is no copy of an array")
        return reads, writes

    def _mapped(self, schedule: Schedule, shared: Sequence[StagedBox]) -> Sequence[Band]:
        """The loops that are dealt out, around all boxes of the copy."""
        root = nodes_of(schedule)
        found: set[tuple[str, ...]] = set()
        for box in shared:
            path = path_to(root, box.loop)
            found.add(tuple(band.loop for band in path[:_MAPPED]))
        if len(found) != 1:
            refuse(self, f"'{self.copy}' is read in several nests")
        (loops,) = found
        if any(schedule.mark(loop) is not Mark.THREAD for loop in loops):
            refuse(self, f"loop '{loops[0]}' around the nest runs on all cores")
        return path_to(root, loops[-1])

    def _turns(self, schedule: Schedule, mapped: Sequence[Band]) -> isl.Map:
        """`{ [tiles of the mapped loops] -> [their turns] }`."""
        assert schedule.mesh is not None
        values = loop_values(schedule, mapped[-1].loop)
        lengths = []
        for at, band in enumerate(mapped):
            cores = schedule.mesh[0 if schedule.axis(band.loop) is Axis.ROW else 1]
            lengths.append(values.get_stride(at).to_python() * cores)
            first = values.project_out(_SET, at + 1, len(mapped) - at - 1)
            first = isl.Map.from_range(first).move_dims(_IN, 0, _OUT, 0, at).lexmin().range()
            if not first.is_subset(_set(f"{{ [x] : x mod {lengths[-1]} = 0 }}")):
                refuse(self, f"turns of loop '{band.loop}' begin elsewhere")
        a, b = lengths
        return isl.Map.read_from_str(
            context(),
            f"{{ [x, y] -> [s, t] : {a} s <= x < {a} s + {a} and {b} t <= y < {b} t + {b} }}",
        )

    def _used(self, schedule: Schedule, box: StagedBox, turns: isl.Map) -> isl.Map:
        """`{ [turn] -> [e] }`: the elements of the copy that are used."""
        path = path_to(nodes_of(schedule), box.loop)
        every = accesses_in(schedule.program, path[-1], self.copy)
        names = [one for one in every if one.name in box.accesses]
        found = elements_of(schedule, box.loop, path[:_MAPPED], names)
        return found.reset_tuple_id(_OUT).apply_domain(turns)

    def _moved(self, schedule: Schedule, panel: StagedBox, turns: isl.Map) -> isl.Map:
        """`{ [turn] -> [e] }`: all that may come with a panel.

        All cores run the panels between the first and the last one of any core in their turn, and
        panels of equally long rows reach beyond the elements that are used.
        """
        # Rows follow each other: no program accesses elements beyond them.
        inside = elements_inside(schedule.program.array(self.copy), panel.elements)
        box = box_around(schedule, panel.elements.intersect_range(inside)).reset_tuple_id(_OUT)
        if panel.is_full_width:
            box = whole_rows(box)
        reached = loop_values(schedule, panel.loop)
        more = reached.dim(_SET) - _MAPPED
        tail = "".join(f", k{at}" for at in range(more))
        outer = turns.insert_dims(_IN, _MAPPED, more).insert_dims(_OUT, _MAPPED, more)
        for at in range(more):
            outer = outer.equate(_IN, _MAPPED + at, _OUT, _MAPPED + at)
        run = reached.apply(outer)  # { [s, t, k] }
        if more:
            head = "s, t" + "".join(f", k{at}" for at in range(more - 1))
            k = f"k{more - 1}"
            before, behind = (
                isl.Map.read_from_str(
                    context(), f"{{ [{head}, {k}] -> [{head}, l] : l {sign} {k} }}"
                )
                for sign in ("<=", ">=")
            )
            run = run.apply(before).intersect(run.apply(behind))
        # Of all tiles of a turn, with any panel that runs in it.
        tiles = isl.Map.read_from_str(context(), f"{{ [s, t{tail}] -> [s, t] }}")
        pairs = outer.reverse().intersect_domain(run)  # { [s, t, k] -> [x, y, k] }
        return pairs.apply_range(box).apply_domain(tiles)

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[ReadInPlace]:
        """Every local array that cores share parts of."""
        local = {a.name for a in schedule.program.arrays if a.role is Role.LOCAL}
        names = {box.array for box in schedule.boxes if box.panel is not None}
        yield from (cls(name) for name in sorted(names & local))


def _set(text: str) -> isl.Set:
    return isl.Set.read_from_str(context(), text)


def _spaces(schedule: Schedule, box: StagedBox) -> tuple[isl.Space, isl.Space]:
    """Spaces of the mapped loops and of the elements of a box."""
    space = schedule.program.context.get_space()
    rank = len(box.extents)
    return space.add_unnamed_tuple_ui(_MAPPED), space.add_unnamed_tuple_ui(rank)


def _comes_first(reads: isl.Map, puts: isl.Map) -> bool:
    """Whether no element is read in a turn behind one that puts it."""
    pairs = puts.reverse().range_product(reads.reverse())  # { [e] -> [[put] -> [read]] }
    later = isl.Map.lex_lt(puts.get_space().domain())
    return bool(pairs.intersect_range(later.wrap()).is_empty())
