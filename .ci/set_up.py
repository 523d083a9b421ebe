"""Create the virtual environment of this checkout and install Loopwright into it.

Usage: python3 .ci/set_up.py DIRECTORY STAMP. Runs on any Python 3 so that an old one gets a
sentence instead of a syntax error. Two runs at once are safe: the second waits for the first.
"""

import os
import subprocess
import sys

NEEDED = (3, 11)


def stop(problem, remedy):
    sys.exit("set-up: %s\ntry: %s" % (problem, remedy))  # noqa: UP031


def wait_for_turn(directory):
    """Hold the directory until this process ends."""
    try:
        import fcntl
    except ImportError:
        return
    fcntl.flock(os.open(directory, os.O_RDONLY), fcntl.LOCK_EX)


def has_pip(python):
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return os.path.exists(python) and subprocess.call([python, "-m", "pip", "-V"], **quiet) == 0


def create(directory):
    if sys.version_info < NEEDED:
        found = ".".join(map(str, sys.version_info[:3]))
        stop("Python 3.11 or newer is needed, this is " + found, "make PYTHON=python3.12 test")
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        package = "python%d.%d-venv" % sys.version_info[:2]  # noqa: UP031
        stop(
            "this Python can create no virtual environment (venv or ensurepip is missing)",
            "install the package " + package + ", or name another Python: make PYTHON=... test",
        )
    if subprocess.call([sys.executable, "-m", "venv", directory]) != 0:
        stop("no virtual environment in " + directory, "make clean, then again")


def main(directory, stamp):
    os.makedirs(directory, exist_ok=True)
    wait_for_turn(directory)
    if os.path.exists(stamp) and os.path.getmtime(stamp) >= os.path.getmtime("pyproject.toml"):
        return
    python = os.path.join(directory, "bin", "python")
    if not has_pip(python):
        create(directory)
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if subprocess.call([*install, "--editable", ".[dev]"]) != 0:
        stop("the packages could not be installed", "see the lines above; a network is needed once")
    with open(stamp, "w"):
        pass


if __name__ == "__main__":
    main(*sys.argv[1:])
