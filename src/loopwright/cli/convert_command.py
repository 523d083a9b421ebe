"""`loopwright convert`: a file of a sparse tensor in another format, or advice which to choose."""

from __future__ import annotations

import argparse
import os

from loopwright.cli.progress import ProgressBar
from loopwright.diagnostics import UsageError
from loopwright.sparse.convert_tensor import convert_tensor
from loopwright.sparse.explain_conversion import explain
from loopwright.sparse.formats import BUILT_IN, find
from loopwright.sparse.recommend_format import recommend
from loopwright.sparse.tensor_files import ENDINGS, check_ending, read_tensor, write_tensor

__all__ = ["add_arguments", "run"]

_USES = 100
_STDIN = "/dev/stdin"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    endings = ", ".join("*" + ending for ending in ENDINGS)
    examples = ", ".join(family.example for family in BUILT_IN.values())
    parser.add_argument("file", help=f"the tensor to read: {endings}; - is the standard input")
    parser.add_argument("--to", metavar="FORMAT", help=f"the format to convert to: {examples}")
    parser.add_argument("-o", dest="output", help="the file to write; only *.npz keeps the format")
    parser.add_argument(
        "--recommend", action="store_true", help="predict size and time in each format"
    )
    parser.add_argument(
        "--uses",
        type=int,
        default=_USES,
        metavar="N",
        help=f"products with a vector that --recommend counts on; {_USES}",
    )
    parser.add_argument(
        "--explain", action="store_true", help="tell how the conversion was found, with its loops"
    )
    parser.add_argument("--threads", type=int, metavar="N", help="workers of the conversion")
    parser.add_argument(
        "--kind", metavar="KIND", help="what a file without an ending holds: mtx, tns or npz"
    )
    parser.add_argument(
        "--shape", metavar="N,N", help="the sizes of a .tns file; else as it says, or the largest"
    )
    parser.add_argument(
        "--base", type=int, metavar="N", help="what the indices of a .tns file count from; 1"
    )
    parser.add_argument(
        "--not-finite", action="store_true", help="accept nan and inf in what is read and written"
    )


def run(args: argparse.Namespace) -> int:
    """Read, convert and write; a file that is written appears whole or not at all."""
    _check(args)
    finite = not args.not_finite
    with ProgressBar(f"reading {os.path.basename(args.file)}") as bar:
        tensor = read_tensor(
            _STDIN if args.file == "-" else args.file,
            kind=args.kind,
            shape=_shape(args.shape),
            base=args.base,
            finite=finite,
            progress=bar,
        )
    target = None if args.to is None else find(args.to, tensor.ndim)
    if args.recommend:
        print(recommend(tensor, args.uses))
    if args.explain and target is not None:
        print(explain(tensor, target))
    if args.output is not None:
        result = tensor
        if target is not None:
            result = convert_tensor(tensor, target, threads=args.threads)
        with ProgressBar(f"writing {os.path.basename(args.output)}") as bar:
            write_tensor(args.output, result, finite=finite, progress=bar)
        print(f"{args.output}: {result!r}")
    return 0


def _check(args: argparse.Namespace) -> None:
    """Check the arguments before anything is read."""
    if args.file != "-" and not os.path.exists(args.file):
        raise UsageError(f"{args.file}: there is no such file")
    if args.output is None and not args.recommend and not args.explain:
        raise UsageError("nothing to do", hint="say where to write with -o, or use --recommend")
    if args.explain and args.to is None:
        raise UsageError("--explain needs a format", hint="--to csr")
    if args.uses < 0:
        raise UsageError(f"--uses is {args.uses}", hint="a number from 0 on")
    if args.threads is not None and args.threads < 1:
        raise UsageError(f"--threads is {args.threads}", hint="a number from 1 on")
    if args.to is not None and args.to.split("(")[0].strip().lower() not in BUILT_IN:
        find(args.to)  # refuses it and tells the names, which needs no tensor
    check_ending(args.file, args.kind)
    if args.output is None:
        return
    check_ending(args.output)
    folder = os.path.dirname(args.output) or "."
    if not os.path.isdir(folder):
        raise UsageError(f"{args.output}: there is no folder {folder}")
    if all(map(os.path.exists, (args.file, args.output))) and os.path.samefile(
        args.file, args.output
    ):
        raise UsageError(f"{args.output} is the file to be read", hint="write to another name")


def _shape(text: str | None) -> tuple[int, ...] | None:
    """The sizes of `--shape 3,4,5`."""
    if text is None:
        return None
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() and len(word) < 19 for word in words):
        raise UsageError("--shape is not a list of sizes", found=text, hint="--shape 3,4,5")
    return tuple(map(int, words))
