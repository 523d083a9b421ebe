"""The disk cache under faults: it may be slower, it is never wrong and never an error."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from loopwright.runtime.disk_cache import DiskCache, Entry

KEY, OTHER = "a" * 64, "b" * 64
ENTRY = Entry({"buffers": ["x"], "scalars": []}, bytes(range(256)) * 8)


@pytest.fixture
def cache(tmp_path: Path) -> DiskCache:
    """A cache that holds one sound entry."""
    made = DiskCache(tmp_path / "cache")
    assert made.put(KEY, ENTRY)
    return made


def file_of(cache: DiskCache, key: str = KEY) -> Path:
    return cache.directory / f"{key}.lwo"


def leftovers(cache: DiskCache) -> list[str]:
    return [name for name in os.listdir(cache.directory) if name.startswith(".new-")]


def test_what_is_put_is_got(cache: DiskCache) -> None:
    assert cache.get(KEY) == ENTRY
    assert cache.get(OTHER) is None
    state = cache.state()
    assert (state.usable, state.reason, state.entries, state.damaged) == (True, "", 1, 0)
    assert state.bytes == file_of(cache).stat().st_size
    assert leftovers(cache) == []


def test_everything_is_closed_to_others(cache: DiskCache) -> None:
    assert cache.directory.stat().st_mode & 0o777 == 0o700
    for path in cache.directory.iterdir():
        assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "change",
    [
        *(lambda data, n=n: data[:n] for n in (0, 1, 11, 12, 43, 44, 47, 48, 60, -1)),
        *(
            lambda data, at=at: data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]
            for at in (0, 11, 12, 43, 44, 46, 48, 60, 100, 1000)
        ),
        lambda data: data + b"\0",
        lambda data: data.replace(b"loopwright1\n", b"loopwright2\n", 1),
    ],
)
def test_damaged_entries(cache: DiskCache, change: Callable[[bytes], bytes]) -> None:
    """They are ignored, and a new entry takes their place."""
    path = file_of(cache)
    path.write_bytes(change(path.read_bytes()))
    assert cache.get(KEY) is None
    assert cache.state().damaged == 1
    assert cache.put(KEY, ENTRY)
    assert cache.get(KEY) == ENTRY


def test_the_right_bytes_of_another_kernel_or_secret(cache: DiskCache, tmp_path: Path) -> None:
    other = DiskCache(tmp_path / "other")
    assert other.put(KEY, ENTRY)
    file_of(cache).rename(file_of(cache, OTHER))
    assert cache.get(OTHER) is None
    file_of(cache).write_bytes(file_of(other).read_bytes())
    assert cache.get(KEY) is None


def test_what_stands_in_place_of_the_entry(cache: DiskCache) -> None:
    file_of(cache).unlink()
    file_of(cache).symlink_to(cache.directory / "nowhere")
    assert cache.get(KEY) is None
    assert cache.state().damaged == 1
    assert cache.put(KEY, ENTRY)
    assert not file_of(cache).is_symlink()
    file_of(cache).chmod(0o622)
    assert cache.get(KEY) is None
    file_of(cache).unlink()
    file_of(cache).mkdir()
    assert cache.get(KEY) is None
    assert not cache.put(KEY, ENTRY)
    assert leftovers(cache) == []
    assert cache.state().damaged == 1
    assert cache.clear() == 0


def moved(path: Path) -> None:
    """Put a link in the place of a file."""
    elsewhere = path.rename(path.with_name("elsewhere"))
    path.symlink_to(elsewhere)


WRITABLE = "can be written by others"
SECRET = "its secret is damaged or open to others"
UNUSABLE: list[tuple[Callable[[Path], object], str]] = [
    *((lambda at, mode=mode: at.chmod(mode), WRITABLE) for mode in (0o770, 0o707, 0o720, 0o702)),
    (lambda at: at.parent.chmod(0o777), "lies in a folder that others can write"),
    (moved, "is not a directory"),
    (lambda at: os.chown(at, 65534, 65534), "belongs to another user"),
    (lambda at: os.chown(at / "secret", 65534, 65534), SECRET),
    *(
        (lambda at, mode=mode: (at / "secret").chmod(mode), SECRET)
        for mode in (0o640, 0o604, 0o777)
    ),
    *((lambda at, x=x: (at / "secret").write_bytes(x), SECRET) for x in (b"", b"short", b"x" * 33)),
    (lambda at: moved(at / "secret"), SECRET),
]


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away"
)
@pytest.mark.parametrize(("change", "reason"), UNUSABLE)
def test_a_directory_or_secret_that_others_can_reach(
    cache: DiskCache, change: Callable[[Path], object], reason: str
) -> None:
    change(cache.directory)
    assert cache.get(KEY) is None
    assert not cache.put(OTHER, ENTRY)
    state = cache.state()
    assert (state.usable, state.reason) == (False, reason)
    cache.directory.parent.chmod(0o1777)  # the sticky bit: only owners rename
    if "folder" in reason:
        assert cache.get(KEY) == ENTRY
    if "secret" in reason:  # clearing the cache makes a new one
        assert cache.clear() == 2
        assert cache.put(KEY, ENTRY)
        assert cache.get(KEY) == ENTRY


def test_a_file_in_place_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert DiskCache(tmp_path / "file").state().reason == "is not a directory"
    assert DiskCache(tmp_path / "file" / "below").state().reason == "Not a directory"


def test_a_lost_secret(cache: DiskCache) -> None:
    """Old entries are lost with it, new ones are not; what is not ours stays."""
    (cache.directory / "secret").unlink()
    (cache.directory / "notes.txt").write_text("mine")
    (cache.directory / ".new-123-abc").write_bytes(b"half an entry")
    assert cache.get(KEY) is None
    assert cache.put(OTHER, ENTRY)
    assert cache.get(OTHER) == ENTRY
    assert cache.get(KEY) is None
    assert cache.clear() == 3
    assert sorted(os.listdir(cache.directory)) == ["notes.txt", "secret"]


# -- the disk fails -------------------------------------------------------------------------------


class Failing:
    """Wraps a function of `os` so that one of its calls fails."""

    def __init__(self, name: str, code: int, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.real, self.code, self.at, self.calls = getattr(os, name), code, at, 0
        monkeypatch.setattr(os, name, self)

    def __call__(self, *args: object, **kwargs: object) -> object:
        self.calls += 1
        if self.calls == self.at:
            raise OSError(self.code, os.strerror(self.code))
        return self.real(*args, **kwargs)


STEPS = ["open", "fdopen", "fsync", "replace", "link"]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_step_of_writing_fails(
    tmp_path: Path, step: str, code: int, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = DiskCache(tmp_path / "cache")
    with monkeypatch.context() as patch:
        Failing(step, code, at, patch)
        stored = cache.put(KEY, ENTRY)
        assert cache.get(KEY) == (ENTRY if stored else None)
    assert leftovers(cache) == []
    assert cache.put(KEY, ENTRY)
    assert cache.get(KEY) == ENTRY


# -- several processes ----------------------------------------------------------------------------


def put_many(cache: DiskCache, keys: str) -> None:
    """Entries of equal size, each last used a second after the one before."""
    for second, letter in enumerate(keys, 10**9):
        assert cache.put(letter * 64, ENTRY)
        os.utime(file_of(cache, letter * 64), (second, second))


def held(cache: DiskCache) -> str:
    return "".join(sorted(path.stem[0] for path in cache.directory.glob("*.lwo")))


def bounded_cache(tmp_path: Path, entries: int) -> DiskCache:
    """A cache that holds so many of the test's entries, and no more."""
    probe = DiskCache(tmp_path / "probe")
    assert probe.put(KEY, ENTRY)
    size = file_of(probe).stat().st_size
    return DiskCache(tmp_path / "cache", entries * size * 16 // 15 + 16)  # it trims to 15/16


def test_the_least_recently_used_entries_go_first(tmp_path: Path) -> None:
    cache = bounded_cache(tmp_path, 4)
    put_many(cache, "abcd")
    assert held(cache) == "abcd"
    assert cache.get(KEY) == ENTRY  # which makes it the latest
    assert cache.put("e" * 64, ENTRY)
    assert held(cache) == "acde"
    state = cache.state()
    assert (state.entries, state.limit) == (4, cache.limit)
    assert state.bytes <= cache.limit
    assert state.oldest == 10**18 + 2 * 10**9  # that of c


def test_only_files_of_the_cache_are_removed(tmp_path: Path) -> None:
    """Links, folders and files of other names stay, and count for nothing."""
    cache = bounded_cache(tmp_path, 2)
    put_many(cache, "a")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(bytes(10**5))
    (cache.directory / f"{'x' * 64}.lwo").symlink_to(elsewhere)
    (cache.directory / f"{'y' * 64}.lwo").mkdir()
    (cache.directory / "faults.txt").write_bytes(bytes(10**5))
    for name in ("faults.txt", f"{'y' * 64}.lwo"):
        os.utime(cache.directory / name, (1, 1))
    put_many(cache, "bc")
    assert held(cache) == "bcxy"
    assert elsewhere.exists()
    assert (cache.directory / "faults.txt").exists()


def test_what_killed_writers_left_is_removed_later(tmp_path: Path) -> None:
    cache = bounded_cache(tmp_path, 3)
    put_many(cache, "a")
    old, new = (cache.directory / f".new-1-{name}" for name in ("old", "new"))
    old.write_bytes(b"half")
    os.utime(old, (10**9, 10**9))
    new.write_bytes(b"half")
    put_many(cache, "bcd")
    assert leftovers(cache) == [".new-1-new"]


TRIMMER = """
import sys
from pathlib import Path
from loopwright.runtime.disk_cache import DiskCache, Entry
cache = DiskCache(Path(sys.argv[1]), 20_000)
sys.stdin.readline()
for round in range(150):
    key = f"{round % 30:064x}"
    found = cache.get(key)
    assert found is None or found.code == key.encode() * 20, round
    cache.put(key, Entry({}, key.encode() * 20))  # others may trim what is half written
"""


def test_several_processes_keep_one_limit(tmp_path: Path) -> None:
    """Entries go while others read and write them; all that is read is whole."""
    processes = [child(TRIMMER, tmp_path / "cache") for _ in range(3)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        _, errors = process.communicate(timeout=600)
        assert process.returncode == 0, errors
    state = DiskCache(tmp_path / "cache").state()
    assert state.damaged == 0
    assert 0 < state.bytes <= 20_000 + 3 * (20_000 // 16 + 1400)


def child(source: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(source), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


KILLED = """
import os, sys, time
from pathlib import Path
from loopwright.runtime.disk_cache import DiskCache, Entry
def wait(*names):
    print("written", flush=True)
    time.sleep(60)
os.replace = wait
DiskCache(Path(sys.argv[1])).put("a" * 64, Entry({}, b"code"))
"""


def test_killed_between_write_and_rename(tmp_path: Path) -> None:
    process = child(KILLED, tmp_path / "cache")
    assert process.stdout is not None
    assert process.stdout.readline() == "written\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    cache = DiskCache(tmp_path / "cache")
    assert len(leftovers(cache)) == 1
    assert cache.get(KEY) is None
    assert cache.state().entries == 0
    assert cache.put(KEY, ENTRY)
    assert cache.get(KEY) == ENTRY
    assert cache.clear() == 2
    assert leftovers(cache) == []


def test_only_plain_files_are_read(cache: DiskCache) -> None:
    """A fifo would hang, a link may lead to a device without an end: the alarm is for those."""
    entry, sound = file_of(cache), file_of(cache).read_bytes()
    before = signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(600)
    try:
        entry.unlink()
        os.mkfifo(entry, 0o600)
        assert cache.get(KEY) is None
        assert cache.state().damaged == 1
        assert cache.put(KEY, ENTRY)
        assert cache.get(KEY) == ENTRY
        entry.unlink()
        entry.symlink_to("/dev/zero")
        assert cache.get(KEY) is None
        elsewhere = cache.directory.parent / "elsewhere"
        elsewhere.write_bytes(sound)
        entry.unlink()
        entry.symlink_to(elsewhere)
        assert cache.get(KEY) is None
        secret = cache.directory / "secret"
        secret.unlink()
        os.mkfifo(secret, 0o600)
        assert not cache.put(KEY, ENTRY)
        assert not cache.state().usable
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def test_entries_have_a_limit(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    size = file_of(cache).stat().st_size
    monkeypatch.setattr("loopwright.runtime.disk_cache._MOST_BYTES", size)
    assert cache.get(KEY) == ENTRY
    monkeypatch.setattr("loopwright.runtime.disk_cache._MOST_BYTES", size - 1)
    assert cache.get(KEY) is None
