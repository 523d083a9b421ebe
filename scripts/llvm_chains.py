"""The chains of operations whose scheduling machine_from_llvm.py reads, as LLVM IR."""

from __future__ import annotations

from typing import Any

FLOATS = {"float16": "half", "float32": "float", "float64": "double"}
INTS = {"int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64"}
BITS = {"half": 16, "float": 32, "double": 64, "i8": 8, "i16": 16, "i32": 32, "i64": 64}
FLOAT_OPS = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
INT_OPS = {"add": "add", "sub": "sub", "mul": "mul"}
LOGIC = ("and", "or", "xor")


def vector(element: str, count: int) -> str:
    return f"<{count} x {element}>"


class Writer:
    """Collects test functions and the intrinsics they declare."""

    def __init__(self, attributes: str) -> None:
        self.functions: list[str] = []
        self.declarations: set[str] = set()
        self.attributes = attributes

    def function(self, name: str, result: str, arguments: str, body: list[str]) -> None:
        text = "\n  ".join(body)
        head = f"define {result} @{name}({arguments}) {self.attributes}"
        self.functions.append(f"{head} {{\n  {text}\n}}")

    def call(self, result: str, name: str, operands: list[tuple[str, str]]) -> str:
        types = ", ".join(kind for kind, _ in operands)
        self.declarations.add(f"declare {result} @{name}({types})")
        return f"call {result} @{name}({', '.join(f'{k} {v}' for k, v in operands)})"

    @property
    def text(self) -> str:
        return "\n".join([*self.functions, *sorted(self.declarations)])


def operation(writer: Writer, op: str, element: str, kind: str, operands: list[str]) -> str:
    """Return the right-hand side of one link."""
    lanes = kind.split()[0][1:]
    suffix = f"v{lanes}" + {"half": "f16", "float": "f32", "double": "f64"}.get(element, element)
    is_float = element in FLOATS.values()
    if op == "fma":
        return writer.call(kind, f"llvm.fma.{suffix}", [(kind, o) for o in operands])
    if op in ("min", "max"):
        stem = f"{op}num" if is_float else f"s{op}"
        call = writer.call(kind, f"llvm.{stem}.{suffix}", [(kind, o) for o in operands])
        # The bare instruction: its rule for NaN differs from the intrinsic's on x86.
        return call.replace("call", "call nnan nsz") if is_float else call
    table = FLOAT_OPS if is_float else INT_OPS
    return f"{table.get(op, op)} {kind} {', '.join(operands)}"


def separator(op: str, dtype: str) -> str | None:
    """The operation put between the links where LLVM would rebuild a plain chain.

    It makes sums, products, minima and maxima trees, two logical operations one vpternlog, and
    a product with a following difference one multiply-add. The separator's cost is taken off again.
    """
    if op in ("min", "max"):
        return "sub"
    if dtype not in INTS:
        return None
    return {"add": "sub", "mul": "xor", "and": "sub", "or": "sub", "xor": "sub"}.get(op)


def chain_functions(writer: Writer, op: str, dtype: str, vector_bytes: int) -> None:
    """Write the chains of 2 and 3 links of one operation."""
    element = FLOATS.get(dtype) or INTS[dtype]
    kind = vector(element, vector_bytes * 8 // BITS[element])
    arguments = ", ".join(f"{kind} %a{i}" for i in range(8))
    for links in (2, 3):
        body, last = [], "%a0"
        for i in range(links):
            name, x, y = f"%r{i}", f"%a{2 * i + 1}", f"%a{2 * i + 2}"
            between = separator(op, dtype)
            if between is not None:
                body.append(f"%s{i} = {operation(writer, between, element, kind, [last, x])}")
                body.append(f"{name} = {operation(writer, op, element, kind, [f'%s{i}', y])}")
            elif op in ("fma.acc", "fma.mul") and element in FLOATS.values():
                operands = [x, y, last] if op == "fma.acc" else [last, x, y]
                body.append(f"{name} = {operation(writer, 'fma', element, kind, operands)}")
            elif op in ("fma.acc", "fma.mul"):
                factors, addend = ([x, y], last) if op == "fma.acc" else ([last, x], y)
                body.append(f"%s{i} = {operation(writer, 'mul', element, kind, factors)}")
                both = [addend, f"%s{i}"]
                body.append(f"{name} = {operation(writer, 'add', element, kind, both)}")
            else:
                body.append(f"{name} = {operation(writer, op, element, kind, [last, x])}")
            last = name
        writer.function(f"{op}.{dtype}.{links}", kind, arguments, [*body, f"ret {kind} {last}"])


def dot_functions(writer: Writer, dtype: str, machine: dict[str, Any]) -> None:
    """Write the chains of the int8 or int16 dot product, by the accumulator and by a factor."""
    width = machine["vector_bytes"]
    acc, arg = vector("i32", width // 4), vector(INTS[dtype], width * 8 // BITS[INTS[dtype]])
    for edge in ("acc", "mul"):
        for links in (2, 3):
            body, last = [], "%c"
            for i in range(links):
                body += dot_link(writer, machine, dtype, i, (acc, arg), last, edge)
                last = f"%r{i}"
            arguments = f"{acc} %c, " + ", ".join(f"{arg} %x{i}, {arg} %y{i}" for i in range(3))
            name = f"dot.{edge}.{dtype}.{links}"
            writer.function(name, acc, arguments, [*body, f"ret {acc} {last}"])


def dot_link(
    writer: Writer,
    machine: dict[str, Any],
    dtype: str,
    i: int,
    kinds: tuple[str, str],
    last: str,
    edge: str,
) -> list[str]:
    acc, arg = kinds
    x, addend, lines = f"%x{i}", last, []
    if edge == "mul":  # the chain goes through a factor: reinterpret the last sum as elements
        lines.append(f"%b{i} = bitcast {acc} {last} to {arg}")
        x, addend = f"%b{i}", "%c"
    bits = machine["vector_bytes"] * 8
    features = machine["features"]
    if machine["isa"] == "aarch64":
        lanes = machine["vector_bytes"] // 4
        name = f"llvm.aarch64.neon.sdot.v{lanes}i32.v{4 * lanes}i8"
        call = writer.call(acc, name, [(acc, addend), (arg, x), (arg, f"%y{i}")])
        return [*lines, f"%r{i} = {call}"]
    if not {"avx512vnni", "avxvnni"}.isdisjoint(features):
        stem = "vpdpbusd" if dtype == "int8" else "vpdpwssd"
        call = writer.call(
            acc, f"llvm.x86.avx512.{stem}.{bits}", [(acc, addend), (arg, x), (arg, f"%y{i}")]
        )
        return [*lines, f"%r{i} = {call}"]
    name = {128: "sse2.pmadd.wd", 256: "avx2.pmadd.wd", 512: "avx512.pmaddw.d.512"}[bits]
    call = writer.call(acc, f"llvm.x86.{name}", [(arg, x), (arg, f"%y{i}")])
    # A difference costs what a sum does and keeps LLVM from building a tree.
    return [*lines, f"%p{i} = {call}", f"%r{i} = sub {acc} {addend}, %p{i}"]


def memory_functions(writer: Writer, vector_bytes: int) -> None:
    kind = vector("float", vector_bytes // 4)
    add = f"fadd {kind}"
    writer.function("base", kind, f"{kind} %a, {kind} %b", [f"%r = {add} %a, %b", f"ret {kind} %r"])
    # Loaded values are used twice: a single use would be folded into the arithmetic instruction.
    load = [f"%a = load {kind}, ptr %p", f"%r = {add} %a, %a", f"ret {kind} %r"]
    writer.function("load", kind, "ptr %p", load)
    writer.function("store", "void", f"{kind} %a, ptr %p", [f"store {kind} %a, ptr %p", "ret void"])
    declaration = "call void @llvm.prefetch.p0(ptr %p, i32 0, i32 3, i32 1)"
    writer.declarations.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    writer.function("prefetch", "void", "ptr %p", [declaration, "ret void"])
