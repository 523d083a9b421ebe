"""Faults of resources: the n-th write, fork, thread, dlopen or allocation of a public call fails.

A case is right if the call gives its result all the same, refused if it ends in an error that says
what is missing, and a fault for all else: a crash, a call that waits for ever, a file half written,
a thread, program, file or folder left behind, a call that fails for a disk or thread that it could
do without, or another result when it is repeated.

Each case runs in a copy of a process that has only imported the package: this module as a program,
which reads cases and writes verdicts, a line each. `--all` runs every case instead.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import importlib
import json
import os
import pkgutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

import loopwright
import loopwright as lw
from loopwright import options
from outside.campaigns.campaign import (
    Campaign,
    Case,
    Difference,
    Random,
    Unjudged,
    chance,
    pick,
)
from outside.campaigns.failing_resources import LIMITS, PRIMITIVES, failing, limited, open_files
from outside.campaigns.resource_calls import CALLS, Call, CommandError, prepare

_PATIENCE = int(os.environ.get("PATIENCE", "150"))  # seconds of one case
# What calls ask for chiefly while they compile; --all lets the rest fail where kernels are on disk.
_WHILE_COMPILING = ("open", "write", "fork")
_UNUSED = ("loopwright.integrations", "loopwright.__main__")  # by these calls
# Without memory the C library and LLVM end a process by themselves; nobody can come before them.
_THEIRS = ("cannot allocate memory for thread-local data: ABORT", "LLVM ERROR: out of memory")
_AMOUNTS = {"files": (0, 1, 2, 3, 4, 6), "size": (0, 1, 100, 5000), "room": (0, 4, 16, 64)}


def campaign() -> Campaign:
    return Campaign("resource_faults", _drawn, _checked, _smaller)


def _drawn(random: Random) -> Case:
    primitive = pick(random, *PRIMITIVES, *PRIMITIVES, *LIMITS)
    return {
        "call": pick(random, *CALLS),
        "primitive": primitive,
        "n": int(
            pick(random, *_AMOUNTS[primitive]) if primitive in LIMITS else random.integers(99)
        ),
        "lasting": chance(random, 3),
        "warm": chance(random, 2),  # kernels lie in the disk cache
    }


def _smaller(case: Case) -> Iterator[Case]:
    for change in ({"lasting": False}, {"warm": True}, {"n": case["n"] // 2}, {"n": case["n"] - 1}):
        if {**case, **change} != case and change.get("n", 0) >= 0:
            yield {**case, **change}


def _checked(case: Case) -> None:
    verdict = _server().asked(case)
    match verdict["outcome"]:
        case "fault":
            raise Difference(verdict["told"])
        case "refused":
            raise lw.UsageError(verdict["told"])
        case "unjudged":
            raise Unjudged(verdict["told"])


class _Server:
    """The process that cases are copies of."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "outside.campaigns.resource_faults"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def asked(self, case: Case) -> Any:
        """The verdict on a case."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(case) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


_servers: list[_Server] = []


def _server() -> _Server:
    if not _servers:
        _servers.append(_Server())
    return _servers[0]


# -- the process that is copied -------------------------------------------------------------------


class Copies:
    """Runs calls in copies of this process, and remembers what they do without a fault."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[tuple[str, str, bool], Case] = {}
        self._count = 0

    def usual(self, name: str, primitive: str, warm: bool) -> Case:
        """What a call does without a fault: its result, requests, files that stay open."""
        key = name, primitive, warm
        if key not in self._known:
            if warm and not (self._folder / name).exists():
                self.usual(name, primitive, warm=False)
            fault = {"call": name, "primitive": primitive, "n": 0, "lasting": False, "warm": warm}
            found = self._copied(fault, None)
            if found["outcome"] == "right" and not (self._folder / name).exists():
                found["caches"].rename(self._folder / name)
            self._known[key] = found
        return self._known[key]

    def judged(self, case: Case) -> Case:
        """The verdict on a case: its outcome, and what is to be told of it."""
        usual = self.usual(case["call"], case["primitive"], case["warm"])
        if usual["outcome"] != "right":
            return {"outcome": "fault", "told": f"without a fault: {usual['told']}"}
        if case["primitive"] in PRIMITIVES:
            if not usual["uses"]:
                return {"outcome": "unjudged", "told": f"no {case['primitive']} in {case['call']}"}
            case = {**case, "n": 1 + case["n"] % usual["uses"]}
        found = self._copied(case, usual)
        return {"outcome": found["outcome"], "told": found["told"]}

    def _copied(self, case: Case, usual: Case | None) -> Case:
        """Run a case in a copy of this process, in folders of its own."""
        self._count += 1
        here = self._folder / f"case{self._count}"
        for name in ("work", "temporary", "home"):
            (here / name).mkdir(parents=True)
        prepare(here / "work")
        if case["warm"]:
            subprocess.run(
                ["cp", "-a", f"{self._folder / case['call']}/.", here / "home"], check=True
            )
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            _run_copy(case, usual, here)
        status = _waited(child)
        file, trace = here / "verdict.json", here / "trace"
        if status or not file.exists():
            where = trace.read_text(errors="replace") if trace.exists() else ""
            found = {
                "outcome": ended(case, where),
                "told": f"{case}: status {status}\n{where[-3000:]}",
            }
        else:
            found = json.loads(file.read_text(encoding="utf-8"))
            left = [str(path) for path in (here / "temporary").iterdir()]
            if left and found["outcome"] != "fault":
                found = {"outcome": "fault", "told": f"{case}: temporary files are left: {left}"}
        if usual is None:
            found["caches"] = here / "home"
        else:
            subprocess.run(["rm", "-r", here], check=True)
        return found


def ended(case: Case, trace: str) -> str:
    """The outcome of a case whose process has ended early, with what it wrote before."""
    is_theirs = case["primitive"] == "room" and any(text in trace for text in _THEIRS)
    return "unjudged" if is_theirs else "fault"


def _waited(child: int) -> int:
    """The status of a copy, which is ended where it takes too long."""
    end = time.monotonic() + _PATIENCE + 10
    while time.monotonic() < end:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return status
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def _run_copy(case: Case, usual: Case | None, here: Path) -> None:
    """Judge a case, write the verdict down, and end this process."""
    os.chdir(here / "work")
    with (here / "trace").open("w") as trace:
        faulthandler.enable(trace)
        faulthandler.dump_traceback_later(_PATIENCE, exit=True, file=trace)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(trace.fileno(), 2)
        os.environ["TMPDIR"] = tempfile.tempdir = str(here / "temporary")
        places = {
            "cache_dir": str(here / "home" / "cache"),
            "data_dir": str(here / "home" / "data"),
        }
        with options.override(**places, strict=True, num_threads=2):
            try:
                found = _verdict(case, usual, here)
            except BaseException:  # noqa: BLE001, whatever is raised is what we look for
                found = {"outcome": "fault", "told": f"{case}: {traceback.format_exc()[-6000:]}"}
        (here / "verdict.json").write_text(json.dumps(found), encoding="utf-8")
        os._exit(0)


def _verdict(case: Case, usual: Case | None, here: Path) -> Case:
    call, primitive = CALLS[case["call"]], case["primitive"]
    files = open_files()
    prepared = set(os.listdir())
    error: BaseException | None = None
    result, uses, places = None, 0, []
    try:
        if primitive in LIMITS and usual is not None:
            with limited(primitive, case["n"]):
                result = _plain(call.run())
        elif primitive in PRIMITIVES:
            with failing(primitive, case["n"], lasting=case["lasting"]) as counted:
                result = _plain(call.run())
            uses, places = counted.count, counted.places
        else:
            result = _plain(call.run())
    except Exception as caught:  # noqa: BLE001, which errors there are is what we look for
        error = caught
        if primitive in PRIMITIVES:
            places = counted.places
    if usual is None:
        if error is not None:
            raise error
        again = _plain(call.run())
        if again != result:
            raise Difference("the second call gives another result")
        return {
            "outcome": "right",
            "result": result,
            "uses": uses,
            "files": _settled(files),
            "told": "",
        }
    told = f"{case}, at {places}"
    if error is not None:
        _require_understood(error, case, call, told)
    elif result != usual["result"]:
        raise Difference(f"{told}: another result")
    reason = "" if error is None else f"{type(error).__name__}: {error}"
    half = _contents(call.writes)
    strange = set(os.listdir()) - prepared - set(call.writes)
    del error
    gc.collect()
    if _plain(call.run()) != usual["result"]:
        raise Difference(f"{told}: another result when it is repeated")
    whole = _contents(call.writes)
    if any(whole[name] != content for name, content in half.items()):
        raise Difference(f"{told}: a file is half written")
    strange |= {path.name for path in (here / "home").rglob(".*")}
    if strange:
        raise Difference(f"{told}: files are left: {sorted(strange)}")
    left = _settled(files)
    if left > usual["files"]:
        raise Difference(f"{told}: {left} files stay open, {usual['files']} without a fault")
    return {"outcome": "refused" if reason else "right", "told": reason}


def _require_understood(error: BaseException, case: Case, call: Call, told: str) -> None:
    """The error is one that says what is missing, and the call cannot do without that."""
    text = "".join(traceback.format_exception(error))[-5000:]
    is_ours = isinstance(error, lw.LoopwrightError | CommandError)
    is_plain = isinstance(error, MemoryError | OSError)
    if not (is_ours or is_plain) or isinstance(error, lw.InternalError):
        raise Difference(f"{told}: not to be understood: {text}")
    if case["primitive"] in PRIMITIVES and case["primitive"] not in call.may_fail:
        raise Difference(f"{told}: it can do without: {text}")


def _settled(files: int) -> int:
    """Files that are open beyond those before, once threads of races have ended."""
    for thread in threading.enumerate():
        if not thread.daemon and thread is not threading.main_thread():
            thread.join(60)
            if thread.is_alive():
                raise Difference(f"{thread.name} does not end")
    gc.collect()
    programs = _programs()
    if programs:
        raise Difference(f"programs are left: {programs}")
    return open_files() - files


def _programs() -> list[str]:
    """The names of this process's children."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            text = Path(f"/proc/{name}/stat").read_text(encoding="utf-8")
        except OSError:
            continue
        command, _, rest = text.rpartition(")")
        if int(rest.split()[1]) == os.getpid():
            found.append(command)
    return found


def _contents(names: tuple[str, ...]) -> dict[str, str]:
    """The contents of those files that are there, folders with all that they hold."""
    found = {}
    for name in names:
        path = Path(name)
        for file in [path, *path.rglob("*")]:
            if file.is_file():
                found[str(file)] = sha256(file.read_bytes()).hexdigest()
    return found


def _plain(value: Any) -> Any:
    """A result as JSON, which is equal where the result is."""
    match value:
        case np.ndarray():
            told = sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
            return [str(value.dtype), list(value.shape), told]
        case np.generic():
            return _plain(np.asarray(value))
        case list() | tuple():
            return [_plain(item) for item in value]
        case dict():
            return {name: _plain(item) for name, item in value.items()}
    return value


# -- all cases ------------------------------------------------------------------------------------


def _all(
    copies: Copies, names: list[str], primitives: list[str], random: Random, most: tuple[int, int]
) -> int:
    """Every case of some calls, or a spread of them; how many are faults."""
    outcomes: Counter[str] = Counter()
    for name in names:
        for primitive in primitives:
            for case in _cases(copies, name, primitive, random, most):
                verdict = copies.judged(case)
                outcomes[f"{primitive}: {verdict['outcome']}"] += 1
                if verdict["outcome"] == "fault":
                    print(f"FAULT {json.dumps(case)}\n{verdict['told']}\n", flush=True)
        print(name, dict(outcomes), flush=True)
    return sum(n for outcome, n in outcomes.items() if outcome.endswith("fault"))


def _cases(
    copies: Copies, name: str, primitive: str, random: Random, most: tuple[int, int]
) -> Iterator[Case]:
    most_cold, most_warm = most
    fixed = {"call": name, "primitive": primitive}
    if primitive in LIMITS:
        for amount in _AMOUNTS[primitive]:
            yield {**fixed, "n": amount, "lasting": False, "warm": amount % 2 == 0}
        return
    for warm in (False, True):
        if not warm and primitive not in _WHILE_COMPILING:
            continue
        usual = copies.usual(name, primitive, warm)
        if usual["outcome"] != "right":
            yield {**fixed, "n": 0, "lasting": False, "warm": warm}
            return
        count, limit = usual["uses"], most_warm if warm else most_cold
        spread = list(range(count))
        if count > limit:
            spread = sorted(random.choice(count, limit, replace=False).tolist())
        for n in spread:
            yield {**fixed, "n": n, "lasting": False, "warm": warm}
        for n in range(min(count, 1)):
            yield {**fixed, "n": n, "lasting": True, "warm": warm}


def main() -> int:
    """Serve cases, or run all of them."""
    parser = argparse.ArgumentParser(prog="resource_faults")
    parser.add_argument("--all", action="store_true", help="run every case")
    parser.add_argument("--only", action="append", choices=list(CALLS), help="some calls")
    parser.add_argument("--primitive", action="append", choices=[*PRIMITIVES, *LIMITS])
    parser.add_argument("--most", type=int, nargs=2, default=(12, 24), help="cold and warm cases")
    args = parser.parse_args()
    for module in pkgutil.walk_packages(loopwright.__path__, "loopwright."):
        if not module.name.startswith(_UNUSED):
            with suppress(ImportError):  # of what is an extra
                importlib.import_module(module.name)
    gc.collect()
    gc.freeze()
    with tempfile.TemporaryDirectory(prefix="resource-faults-") as folder:
        copies = Copies(Path(folder))
        if args.all:
            primitives = args.primitive or [*PRIMITIVES, *LIMITS]
            names = args.only or list(CALLS)
            random, most = np.random.default_rng(1), tuple(args.most)
            return int(_all(copies, names, primitives, random, most) > 0)
        for line in sys.stdin:
            print(json.dumps(copies.judged(json.loads(line))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
