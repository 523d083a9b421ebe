"""Create the virtual environment of this checkout and install Loopwright into it.

Usage: python3 .ci/set_up.py DIRECTORY running|developing. Both install into the same environment;
what is needed for developing includes what is needed for running. Runs on any Python 3 so that an
old one gets a sentence instead of a syntax error. Two runs at once are safe: the second waits for
the first. The output of pip is kept in a file; its end is shown where pip fails.
"""

import os
import subprocess
import sys

NEEDED = (3, 11)
LINES = 20  # of pip's output that are shown
LOG = "set-up.log"
# Purpose -> extra of the package, target that asks for it, what is installed, how long that takes.
PURPOSES = {
    "running": ("sparse", "demo", "NumPy, SciPy, islpy and llvmlite", "half a minute"),
    "developing": ("dev", "test", "NumPy, SciPy, LLVM, pytest, ruff and mypy", "a minute"),
}
STAMPS = {"running": ".running", "developing": ".installed"}
COVERED_BY = {"running": ("running", "developing"), "developing": ("developing",)}


def stop(problem, remedy):
    sys.exit("set-up: %s\ntry: %s" % (problem, remedy))  # noqa: UP031


def wait_for_turn(directory):
    """Hold the directory until this process ends."""
    try:
        import fcntl
    except ImportError:
        return
    fcntl.flock(os.open(directory, os.O_RDONLY), fcntl.LOCK_EX)


def is_done(directory, purpose):
    """Whether all was installed after the last change of what is needed."""
    paths = [os.path.join(directory, STAMPS[other]) for other in COVERED_BY[purpose]]
    changed = os.path.getmtime("pyproject.toml")
    return any(os.path.exists(path) and os.path.getmtime(path) >= changed for path in paths)


def has_pip(python):
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return os.path.exists(python) and subprocess.call([python, "-m", "pip", "-V"], **quiet) == 0


def require_venv(target):
    """Stop unless this Python is new enough and can create virtual environments."""
    if sys.version_info < NEEDED:
        found = ".".join(map(str, sys.version_info[:3]))
        stop("Python 3.11 or newer is needed, this is " + found, "make PYTHON=python3.12 " + target)
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        package = "python%d.%d-venv" % sys.version_info[:2]  # noqa: UP031
        stop(
            "this Python can create no virtual environment (venv or ensurepip is missing)",
            "install the package "
            + package
            + ", or name another Python: make PYTHON=... "
            + target,
        )


def install(python, extra, log):
    """Install the checkout with an extra; False where that fails."""
    command = [python, "-m", "pip", "install", "--quiet", "--no-input"]
    command += ["--disable-pip-version-check", "--editable", ".[" + extra + "]"]
    with open(log, "w") as output:
        return subprocess.call(command, stdout=output, stderr=subprocess.STDOUT) == 0


def end_of(log):
    with open(log, errors="replace") as output:
        return "".join(output.readlines()[-LINES:])


def main(directory, purpose):
    extra, target, what, duration = PURPOSES[purpose]
    os.makedirs(directory, exist_ok=True)
    wait_for_turn(directory)
    if not is_done(directory, purpose):
        python = os.path.join(directory, "bin", "python")
        is_new = not has_pip(python)
        if is_new:
            require_venv(target)
        print("Installing " + what + " into " + directory + ": about " + duration + ".")
        sys.stdout.flush()
        if is_new and subprocess.call([sys.executable, "-m", "venv", directory]) != 0:
            stop("no virtual environment in " + directory, "make clean, then again")
        log = os.path.join(directory, LOG)
        if not install(python, extra, log):
            sys.stderr.write(end_of(log))
            stop(
                "pip could not install the packages; all that it printed is in " + log,
                "mend what pip names (a network is needed once), then make " + target,
            )
    with open(os.path.join(directory, STAMPS[purpose]), "w"):
        pass


if __name__ == "__main__":
    main(*sys.argv[1:])
