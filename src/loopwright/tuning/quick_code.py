"""LLVM code of a LoopTree that keeps its loop order, written to be compiled in milliseconds.

All sizes are constants, so every loop is either full or a remainder of known length, and each is
written with the bounds it has: there are no guards, masks or minima. Registers, vectors and
addresses are explicit (quick_plan decides on them); LLVM runs no pass over the text, it selects
instructions, allocates registers and schedules.
"""

from __future__ import annotations

from loopwright.backends.llvm.llvm_builder import FunctionBuilder
from loopwright.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var
from loopwright.ir.loops import Mark
from loopwright.ir.machine import Machine
from loopwright.ir.program import Role
from loopwright.lazy_dataclass import dataclass
from loopwright.tuning.access_moves import access_moves
from loopwright.tuning.loop_tree import LoopTree, TreeStatement, shape_of
from loopwright.tuning.nest_code import NestCode, buffer_address, buffer_bytes

__all__ = ["TreeCode", "can_emit", "emit_tree"]


def can_emit(tree: LoopTree) -> bool:
    """Whether there is quick code of a tree.

    Not for complex numbers and truth values, values that use the number of an iteration, parallel
    loops (whose chunks have quick code: parallel_code), and writes that reach an element from
    different points of dimensions they vary with.
    """
    return all(
        _is_plain(nest.statement, tree)
        and not any(loop.mark is Mark.PARALLEL for loop in nest.loops)
        for nest in tree.nests
    )


def _is_plain(statement: TreeStatement, tree: LoopTree) -> bool:
    dtypes = {statement.write.dtype, *(load.dtype for load in statement.operands)}
    if any(d.is_complex or d.kind == "b" for d in dtypes):
        return False
    if _uses_iterations(statement.value):
        return False
    if any(load.array == statement.write.array for load in statement.operands):
        return False
    coefs = access_moves(statement.write, tree.array(statement.write.array), statement)
    return _is_injective([(abs(coefs[d]), n) for d, n in statement.dims if coefs[d]])


def _uses_iterations(value: Expr) -> bool:
    """Whether a value depends on variables other than by subscripts."""
    match value:
        case Load() | Const():
            return False
        case Var() | Select():
            return True
        case Call(args=args):
            return any(map(_uses_iterations, args))
        case Binary(x=x, y=y):
            return _uses_iterations(x) or _uses_iterations(y)
        case Unary(x=x) | Cast(x=x):
            return _uses_iterations(x)


def _is_injective(moves: list[tuple[int, int]]) -> bool:
    """Whether sums of multiples of the moves are different numbers, by a sufficient condition."""
    reach = 0
    for coef, extent in sorted(moves):
        if extent > 1:
            if coef <= reach:
                return False
            reach += coef * (extent - 1)
    return True


@dataclass(frozen=True, slots=True)
class TreeCode:
    """The code of a tree: one function of scratch memory and the first elements of arrays.

        void entry(ptr memory, ptr first...)

    It has no entry points as other kernels have: each costs a millisecond to compile.
    """

    text: str
    entry: str
    arrays: tuple[str, ...]  # names of the arguments in call order
    memory: int  # bytes of scratch memory


def emit_tree(tree: LoopTree, machine: Machine, entry: str = "kernel") -> TreeCode:
    """The code of a tree that `can_emit`."""
    code = FunctionBuilder()
    arguments = [a for a in tree.arrays if a.role is not Role.LOCAL]
    pointers = {a.name: f"%a{number}" for number, a in enumerate(arguments)}
    memory = 0
    for array in tree.arrays:
        if array.role is Role.LOCAL:
            pointers[array.name] = buffer_address(code, memory)
            memory += buffer_bytes(shape_of(array), array.dtype)
    most = memory
    for nest in tree.nests:
        writer = NestCode(tree, nest, machine, code, pointers, memory)
        writer.write()
        most = max(most, writer.memory)
    parameters = "".join(f", ptr noalias {pointers[a.name]}" for a in arguments)
    head = f"define void @{entry}(ptr noalias %memory{parameters}) nounwind {{"
    body = [head, "entry:", *code.entry, *code.lines, "  ret void", "}"]
    text = "\n".join([*code.declarations, *body])
    return TreeCode(text, entry, tuple(a.name for a in arguments), most)
