"""The disk cache under faults: it may be slower, it is never wrong and never an error."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from loopwright import options
from loopwright.runtime.disk_cache import DiskCache, Entry, disk_cache

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


def test_an_empty_object_and_an_empty_header(cache: DiskCache) -> None:
    assert cache.put(OTHER, Entry({}, b""))
    assert cache.get(OTHER) == Entry({}, b"")


def test_a_later_put_replaces_the_entry(cache: DiskCache) -> None:
    assert cache.put(KEY, Entry({}, b"new"))
    assert cache.get(KEY) == Entry({}, b"new")


def damaged(cache: DiskCache, change: Callable[[bytes], bytes]) -> None:
    """Change the entry's file; the cache must ignore it and take a new entry in its place."""
    path = file_of(cache)
    path.write_bytes(change(path.read_bytes()))
    assert cache.get(KEY) is None
    assert cache.state().damaged == 1
    assert cache.put(KEY, ENTRY)
    assert cache.get(KEY) == ENTRY


@pytest.mark.parametrize("length", [0, 1, 11, 12, 43, 44, 47, 48, 60, -1])
def test_truncated(cache: DiskCache, length: int) -> None:
    damaged(cache, lambda data: data[:length])


@pytest.mark.parametrize("at", [0, 11, 12, 43, 44, 46, 48, 60, 100, -1])
def test_one_bit_flipped(cache: DiskCache, at: int) -> None:
    def flip(data: bytes) -> bytes:
        changed = bytearray(data)
        changed[at] ^= 0x10
        return bytes(changed)

    damaged(cache, flip)


def test_something_appended(cache: DiskCache) -> None:
    damaged(cache, lambda data: data + b"\0")


def test_another_format_version(cache: DiskCache) -> None:
    damaged(cache, lambda data: data.replace(b"loopwright1\n", b"loopwright2\n", 1))


def test_a_sound_entry_under_another_key(cache: DiskCache) -> None:
    """The right bytes of another kernel are the wrong bytes."""
    file_of(cache).rename(file_of(cache, OTHER))
    assert cache.get(OTHER) is None
    assert cache.get(KEY) is None


def test_an_entry_of_another_secret(cache: DiskCache, tmp_path: Path) -> None:
    other = DiskCache(tmp_path / "other")
    assert other.put(KEY, ENTRY)
    file_of(cache).write_bytes(file_of(other).read_bytes())
    assert cache.get(KEY) is None


def test_a_folder_in_place_of_the_entry(cache: DiskCache) -> None:
    file_of(cache).unlink()
    file_of(cache).mkdir()
    assert cache.get(KEY) is None
    assert not cache.put(KEY, ENTRY)
    assert leftovers(cache) == []
    assert cache.state().damaged == 1
    assert cache.clear() == 0


def test_a_dangling_link_in_place_of_the_entry(cache: DiskCache) -> None:
    file_of(cache).unlink()
    file_of(cache).symlink_to(cache.directory / "nowhere")
    assert cache.get(KEY) is None
    assert cache.state().damaged == 1
    assert cache.put(KEY, ENTRY)
    assert not file_of(cache).is_symlink()


def unusable(cache: DiskCache, reason: str) -> None:
    assert cache.get(KEY) is None
    assert not cache.put(OTHER, ENTRY)
    state = cache.state()
    assert (state.usable, state.reason) == (False, reason)


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o720, 0o702])
def test_a_directory_others_can_write(cache: DiskCache, mode: int) -> None:
    cache.directory.chmod(mode)
    unusable(cache, "can be written by others")
    cache.directory.chmod(0o755)
    assert cache.get(KEY) == ENTRY


def test_a_directory_behind_a_link(cache: DiskCache, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(cache.directory)
    unusable(DiskCache(link), "is not a directory")


def test_a_file_in_place_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    unusable(DiskCache(tmp_path / "file"), "is not a directory")
    unusable(DiskCache(tmp_path / "file" / "below"), "Not a directory")


def test_a_directory_that_can_be_swapped(cache: DiskCache) -> None:
    """Who may rename things in the folder above may put another directory in place of ours."""
    above = cache.directory.parent
    above.chmod(0o777)
    unusable(cache, "lies in a folder that others can write")
    above.chmod(0o1777)  # the sticky bit: only owners rename
    assert cache.get(KEY) == ENTRY


needs_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away"
)


@needs_root
def test_a_directory_of_another_user(cache: DiskCache) -> None:
    os.chown(cache.directory, 65534, 65534)
    unusable(cache, "belongs to another user")


@needs_root
def test_a_secret_of_another_user(cache: DiskCache) -> None:
    os.chown(cache.directory / "secret", 65534, 65534)
    unusable(cache, "its secret is damaged or open to others")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o777])
def test_a_secret_others_can_read(cache: DiskCache, mode: int) -> None:
    (cache.directory / "secret").chmod(mode)
    unusable(cache, "its secret is damaged or open to others")


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 33])
def test_a_damaged_secret(cache: DiskCache, content: bytes) -> None:
    """Clearing the cache makes a new one."""
    (cache.directory / "secret").write_bytes(content)
    unusable(cache, "its secret is damaged or open to others")
    assert cache.clear() == 2
    assert cache.put(KEY, ENTRY)
    assert cache.get(KEY) == ENTRY


def test_a_secret_behind_a_link(cache: DiskCache, tmp_path: Path) -> None:
    secret = cache.directory / "secret"
    moved = tmp_path / "elsewhere"
    secret.rename(moved)
    secret.symlink_to(moved)
    unusable(cache, "its secret is damaged or open to others")


def test_a_lost_secret(cache: DiskCache) -> None:
    """Old entries are lost with it, new ones are not."""
    (cache.directory / "secret").unlink()
    assert cache.get(KEY) is None
    assert cache.put(OTHER, ENTRY)
    assert cache.get(OTHER) == ENTRY
    assert cache.get(KEY) is None


def test_clear_keeps_a_sound_secret_and_what_is_not_ours(cache: DiskCache) -> None:
    (cache.directory / "notes.txt").write_text("mine")
    (cache.directory / ".new-123-abc").write_bytes(b"half an entry")
    assert cache.clear() == 2
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
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EIO, errno.EDQUOT])
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


@pytest.mark.parametrize("room", [0, 1, 31, 40, 500])
def test_the_disk_is_full(tmp_path: Path, room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes succeed until the disk is full, in the middle of a file too."""
    cache = DiskCache(tmp_path / "cache")
    real, left = os.fdopen, room

    class Full:
        def __init__(self, file: object) -> None:
            self.file = file

        def __enter__(self) -> Full:
            return self

        def __exit__(self, *error: object) -> None:
            self.file.close()

        def write(self, data: bytes) -> int:
            nonlocal left
            self.file.write(data[:left])
            if len(data) > left:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            left -= len(data)
            return len(data)

        def __getattr__(self, name: str) -> object:
            return getattr(self.file, name)

    def fdopen(handle: int, mode: str) -> object:
        file = real(handle, mode)
        return Full(file) if "w" in mode else file

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdopen", fdopen)
        assert not cache.put(KEY, ENTRY)
        assert cache.get(KEY) is None
    assert leftovers(cache) == []
    assert cache.put(KEY, ENTRY)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_device_that_is_full(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error comes from the system itself, when the buffer is flushed."""
    real = os.open

    def redirect(path: object, flags: int, *mode: int) -> int:
        return real("/dev/full" if flags & os.O_WRONLY else path, flags & ~os.O_EXCL, *mode)

    monkeypatch.setattr(os, "open", redirect)
    assert not cache.put(OTHER, ENTRY)
    assert cache.get(KEY) == ENTRY


@pytest.mark.skipif(
    hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may write everywhere"
)
def test_a_directory_that_cannot_be_written(cache: DiskCache) -> None:
    cache.directory.chmod(0o500)
    assert not cache.put(OTHER, ENTRY)
    assert cache.get(KEY) == ENTRY
    cache.directory.chmod(0o700)


def test_a_read_only_disk_still_serves(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def readonly(path: object, flags: int, *mode: int) -> int:
        if flags & os.O_WRONLY:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return real(path, flags, *mode)

    monkeypatch.setattr(os, "open", readonly)
    monkeypatch.setattr(os, "unlink", Failing("unlink", errno.EROFS, 1, monkeypatch))
    assert not cache.put(OTHER, ENTRY)
    assert cache.get(KEY) == ENTRY


def test_removed_under_our_hands(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process clears the cache between listing and reading."""
    listing = os.listdir(cache.directory)
    file_of(cache).unlink()
    monkeypatch.setattr(os, "listdir", lambda path: listing)
    state = cache.state()
    assert (state.entries, state.damaged) == (1, 1)
    assert cache.clear() == 0


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


def test_bytes_and_files_do_not_grow_beyond_the_limit(tmp_path: Path) -> None:
    cache = bounded_cache(tmp_path, 5)
    for number in range(40):
        assert cache.put(f"{number:064x}", ENTRY)
        assert cache.get(f"{number:064x}") == ENTRY
        assert cache.state().bytes <= cache.limit
    assert leftovers(cache) == []


def test_a_lower_limit_holds_from_the_next_write_on(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "cache", 1 << 30)
    put_many(cache, "abcdefgh")
    lower = DiskCache(cache.directory, cache.state().bytes // 2)
    assert lower.put("i" * 64, ENTRY)
    assert lower.state().bytes <= lower.limit
    assert "i" in held(lower)


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


def test_an_entry_that_is_open_stays_readable(tmp_path: Path) -> None:
    cache = bounded_cache(tmp_path, 1)
    put_many(cache, "a")
    with file_of(cache).open("rb") as reader:
        put_many(cache, "b")
        assert held(cache) == "b"
        assert reader.read().endswith(ENTRY.code)


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
    assert cache.put(key, Entry({}, key.encode() * 20))
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


WRITER = """
import sys
from pathlib import Path
from loopwright.runtime.disk_cache import DiskCache, Entry
cache = DiskCache(Path(sys.argv[1]))
sys.stdin.readline()
for round in range(100):
    assert cache.put("a" * 64, Entry({"who": sys.argv[2]}, sys.argv[2].encode() * 50_000))
    found = cache.get("a" * 64)
    assert found is not None, round
    assert found.code == found.header["who"].encode() * 50_000
"""


def child(source: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(source), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_two_processes_write_one_key(tmp_path: Path) -> None:
    """Readers see one writer's entry or the other's, whole; both start without a secret."""
    writers = [child(WRITER, tmp_path / "cache", who) for who in "xy"]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        _, errors = writer.communicate(timeout=600)
        assert writer.returncode == 0, errors
    cache = DiskCache(tmp_path / "cache")
    assert cache.get(KEY) is not None
    assert leftovers(cache) == []


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


def test_a_clock_that_jumps(cache: DiskCache) -> None:
    """Times of files decide only which entry goes first."""
    for moment in (0, 2**31 - 1, time.time() + 10**8):
        os.utime(file_of(cache), (moment, moment))
        assert cache.get(KEY) == ENTRY


def test_the_switch(tmp_path: Path) -> None:
    with options.override(cache=False):
        assert disk_cache() is None
    with options.override(cache_dir=str(tmp_path)):
        found = disk_cache()
    assert found is not None
    assert found.directory == tmp_path


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


def test_entries_that_others_may_write_are_not_read(cache: DiskCache) -> None:
    file_of(cache).chmod(0o622)
    assert cache.get(KEY) is None
