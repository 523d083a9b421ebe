"""Commands answer signals while C code runs that Python cannot interrupt, and leave nothing.

No clock decides here: a command that never ends has failed after ten minutes, and is ended.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from loopwright.cli.guardian import is_heard

SECONDS = 600  # a guard against a hang only
# A command that calls a program and then a function of C that never returns, as isl may: no signal
# is looked for meanwhile, and no other thread of Python runs.
SCRIPT = """
import itertools, os, sys, tempfile, types
from pathlib import Path
from loopwright import cli
from loopwright.child_process import Child

def run(args):
    folder = tempfile.mkdtemp()
    Path(folder, "half").write_text("written")
    Child(["sleep", "1000"], pass_fds=[ALIVE])
    line = os.fsencode(tempfile.gettempdir() + "\\n")  # written when no more Python runs
    sum(itertools.chain(map(os.write, [1], [line]), itertools.repeat(0)))

command = types.ModuleType("fake_command")
command.run, command.add_arguments = run, lambda parser: None
sys.modules["fake_command"] = command
cli.COMMANDS = (("fake", "fake_command", "do as told"),)
ALIVE = int(sys.argv.pop())
sys.argv[1:] = ["fake"]
sys.exit(cli.main())
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_command_that_does_not_hear(number: signal.Signals, tmp_path: Path) -> None:
    read, alive = os.pipe()  # its end is open in the command, its guardian and the called program
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(alive)],
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        pass_fds=[alive],
        text=True,
    ) as process:
        os.close(alive)
        assert process.stdout is not None
        try:
            folder = Path(process.stdout.readline().strip())
            assert folder.parent == tmp_path
            process.send_signal(number)
            assert process.wait(SECONDS) == -signal.SIGKILL
        finally:
            process.kill()
    assert os.read(read, 1) == b""  # all of them are gone
    os.close(read)
    assert list(tmp_path.iterdir()) == []


def test_a_command_that_ends_leaves_no_folder(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "loopwright", "machines"]
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (b"", True),
        (bytes([signal.SIGTERM, 0]), True),
        (bytes([signal.SIGINT, signal.SIGINT, 0]), True),
        (bytes([signal.SIGALRM]), True),
        (bytes([signal.SIGINT, 0, signal.SIGCHLD]), True),
    ],
)
def test_what_is_heard(said: bytes, expected: bool) -> None:
    """A command that has heard a signal may take its time: it ends by itself."""
    read, write = os.pipe()
    os.write(write, said)
    os.close(write)
    assert is_heard(read, 60.0) is expected
    os.close(read)


@pytest.mark.parametrize("said", [[signal.SIGTERM], [signal.SIGINT, 0, signal.SIGINT]])
def test_what_is_not_heard(said: list[int]) -> None:
    read, write = os.pipe()
    os.write(write, bytes(said))
    assert not is_heard(read, 0.01)
    os.close(read)
    os.close(write)
