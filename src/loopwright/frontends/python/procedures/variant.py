"""What a Procedure is read for, beside the types of its arguments."""

from __future__ import annotations

from loopwright.lazy_dataclass import dataclass

__all__ = ["Variant"]


@dataclass(frozen=True, slots=True)
class Variant:
    """What calls know of the memory of their arguments, by position of the argument.

    A procedure that is read for it is right only for such calls.
    """

    ones: frozenset[tuple[int, int]] = frozenset()  # (argument, dimension) of extent 1
    # Of arrays whose strides do not fall: the dimensions from the slowest to the fastest.
    orders: tuple[tuple[int, tuple[int, ...]], ...] = ()
    gapped: frozenset[int] = frozenset()  # arrays with gaps between their elements
    # Conditions that the ends of loop ranges imply are guards; else they are checked where they
    # stand, and slices are clamped as NumPy clamps them.
    trusting: bool = True

    def order(self, argument: int, rank: int) -> tuple[int, ...]:
        """The dimensions of an argument from the slowest to the fastest."""
        return dict(self.orders).get(argument, tuple(range(rank)))
