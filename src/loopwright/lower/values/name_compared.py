"""Name what a choice compares and takes: C's `a < b ? a : b` then is one instruction.

Compilers of C take the second and third operand of a choice for control flow as long as there is
anything to load or compute in them: the loop stays a loop of branches, without vectors. What the
condition compares is computed in any case, so that naming it touches nothing that was not touched.
"""

from __future__ import annotations

from dataclasses import field, replace

from loopwright.ir.expr import (
    COMPARISONS,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Select,
    Unary,
    Var,
)
from loopwright.ir.loops import For, Let, LoopNest, Mark, Stmt, Store
from loopwright.ir.visit import fresh_name, rebuild, rewrite, walk
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.build import bound_names

__all__ = ["name_compared"]

# Elsewhere a branch that is foreseen may be faster: a chain of choices waits for each of them.
_IN_VECTORS = (Mark.SIMD, Mark.VECTOR)


def name_compared(nest: LoopNest) -> LoopNest:
    """Bind the operands of comparisons that a choice in a loop of vectors repeats.

        t[j] = t[j] if t[j] < a[k] + b[k, j] else a[k] + b[k, j]
    ->  let t_v = t[j]; let v = a[k] + b[k, j]; t[j] = t_v if t_v < v else v
    """
    taken = bound_names(nest)

    def visit(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, Store | Let):
            return stmt
        value = stmt.value
        if not any(isinstance(x, Select) for x in walk(value)):
            return stmt
        naming = _Naming(taken)
        own = Load(stmt.buffer, stmt.index, value.dtype) if isinstance(stmt, Store) else None
        if own and own.index and own in walk(value):  # it may be loaded, chosen or not
            known = naming.named(own)
            value = rewrite(value, lambda part: known if part == own else part)
        changed: Stmt = replace(stmt, value=naming.value(value))
        for name, bound in reversed(naming.bound):
            changed = Let(name, bound, changed)
        return changed if naming.bound else stmt

    def loop(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, For) or stmt.mark not in _IN_VECTORS:
            return stmt
        return replace(stmt, body=rebuild(stmt.body, visit))

    return replace(nest, body=rebuild(nest.body, loop))


@dataclass(frozen=True, slots=True)
class _Naming:
    """Values that were given names, in the order in which they are computed."""

    taken: set[str]  # grows with the names
    bound: list[tuple[str, Expr]] = field(default_factory=list)
    known: dict[Expr, Expr] = field(default_factory=dict)  # values, by name

    def value(self, expr: Expr) -> Expr:
        """`expr` with names; only what is computed whatever the data are is looked into."""
        match expr:
            case Select(cond=Binary(op=op, x=a, y=b), x=x, y=y) if op in COMPARISONS:
                repeated = {*walk(x), *walk(y)}
                names = {z: self.named(z) for z in (a, b) if _is_compound(z) and z in repeated}
                left, right = (names.get(z) or self.value(z) for z in (a, b))

                def change(part: Expr) -> Expr:
                    return names.get(part, part)

                return Select(Binary(op, left, right), rewrite(x, change), rewrite(y, change))
            case Binary(op="and" | "or", x=x):
                return replace(expr, x=self.value(x))
            case Binary(x=x, y=y):
                return replace(expr, x=self.value(x), y=self.value(y))
            case Unary(x=x) | Cast(x=x):
                return replace(expr, x=self.value(x))
            case Call(args=args):
                return replace(expr, args=tuple(map(self.value, args)))
            case _:
                return expr

    def named(self, expr: Expr) -> Expr:
        """The name of a value, which is computed here, once."""
        if expr in self.known:
            return self.known[expr]
        stem = f"{expr.array}_v" if isinstance(expr, Load) else "v"
        inner = self.value(expr)
        name = fresh_name(stem, self.taken)
        self.taken.add(name)
        self.bound.append((name, inner))
        return self.known.setdefault(expr, Var(name, expr.dtype))


def _is_compound(expr: Expr) -> bool:
    """Whether there is something to compute or to load."""
    if isinstance(expr, Load) and not expr.index:
        return False  # a register
    return not isinstance(expr, Var | Const)
