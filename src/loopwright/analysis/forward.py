"""Forwarding: values named by a local scalar, put back where they are used.

    r = A[i, k]                               C[i, j] = C[i, j] + A[i, k] * B[k, j]
    C[i, j] = C[i, j] + r * B[k, j]     ->

A scalar is forwarded when one statement T sets it, one statement R reads it, every instance of R
reads the value of one instance of T, an affine function of its own, `{ R[i] -> T[f(i)] }`, and
T reads only arrays the program never writes: its value is then the same at any time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import islpy as isl

from loopwright.analysis.dependences import flow_through
from loopwright.analysis.relations import function_exprs, maps_of
from loopwright.ir.expr import Expr, Load
from loopwright.ir.program import Program, Role, Statement
from loopwright.ir.visit import rewrite, substitute

__all__ = ["Forwarded", "forwarded"]


@dataclass(frozen=True, slots=True)
class Forwarded:
    """A program without the statements whose values were forwarded."""

    program: Program
    absorbed: dict[str, tuple[str, ...]]  # statement -> those whose values now stand in it


def forwarded(program: Program) -> Forwarded:
    """`program` with its local scalars forwarded; itself when there are none to forward."""
    found = Forwarded(program, {})
    for name in [array.name for array in program.arrays if _is_local_scalar(program, array.name)]:
        found = _forward(found, name)
    return found


def _is_local_scalar(program: Program, name: str) -> bool:
    array = program.array(name)
    return array.rank == 0 and array.role is Role.LOCAL


def _forward(found: Forwarded, scalar: str) -> Forwarded:
    """The program without `scalar`, where that can be."""
    program = found.program
    setters = [s for s in program.statements if s.write.array == scalar]
    readers = [s for s in program.statements if scalar in _arrays_read(s)]
    if len(setters) != 1 or len(readers) != 1 or setters == readers:
        return found
    (setter,), (reader,) = setters, readers
    written = {statement.write.array for statement in program.statements}
    if written & set(_arrays_read(setter)):
        return found
    flow = maps_of(flow_through(program, scalar))
    domain = reader.domain.intersect_params(program.context)
    if len(flow) != 1 or not domain.is_subset(flow[0].range()):
        return found
    point = function_exprs(flow[0].reverse(), reader.iterators)
    if point is None:
        return found
    value = substitute(setter.value, dict(zip(setter.iterators, point, strict=True)))
    changed = replace(reader, value=_with(reader.value, scalar, value))
    absorbed = dict(found.absorbed)
    names = (*absorbed.pop(setter.name, ()), setter.name)
    absorbed[reader.name] = (*absorbed.get(reader.name, ()), *names)
    return Forwarded(_without(program, setter, changed), absorbed)


def _arrays_read(statement: Statement) -> Iterator[str]:
    return (access.array for access in statement.reads)


def _with(expr: Expr, scalar: str, value: Expr) -> Expr:
    def change(node: Expr) -> Expr:
        return value if isinstance(node, Load) and node.array == scalar else node

    return rewrite(expr, change)


def _without(program: Program, gone: Statement, changed: Statement) -> Program:
    """`program` without one statement and with another one changed."""
    statements = tuple(
        changed if statement.name == changed.name else statement
        for statement in program.statements
        if statement.name != gone.name
    )
    domain = program.schedule.get_domain().subtract(isl.UnionSet.from_set(gone.domain))
    return replace(
        program, statements=statements, schedule=program.schedule.intersect_domain(domain)
    )
