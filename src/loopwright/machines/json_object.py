"""JSON of machine files: read, and taken apart with every member checked."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from loopwright.diagnostics import UsageError

__all__ = ["JsonObject", "read_json"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")  # reaches LLVM and file names
_MOST_BYTES = 1 << 20  # a machine file is about ten kilobytes; a larger one is not ours


def read_json(path: str) -> Any:
    """The JSON value in a machine file."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read machine file {path}: {error.strerror}") from None
    if len(text) > _MOST_BYTES:
        raise UsageError(f"{path}: larger than {_MOST_BYTES} bytes, not a machine file")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not JSON: {error}") from None


class JsonObject:
    """A JSON object with its place in the file, and checked access to its members."""

    def __init__(self, data: Any, where: str) -> None:
        if not isinstance(data, dict):
            raise UsageError(f"{where}: expected an object", found=_shown(data))
        self.data: dict[str, Any] = data
        self.where = where

    def _get(self, key: str) -> Any:
        if key not in self.data:
            raise UsageError(f"{self.where}: field '{key}' is missing")
        return self.data[key]

    def _refuse(self, key: str, expected: str) -> UsageError:
        found = _shown(self.data[key])
        return UsageError(f"{self.where}: field '{key}' must be {expected}", found=found)

    def number(self, key: str, *, zero: bool = False) -> float:
        value = self._get(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._refuse(key, "a number")
        if not (math.isfinite(value) and (value > 0 or (zero and value == 0))):
            raise self._refuse(key, "a positive number" + (" or 0" if zero else ""))
        return value

    def number_or_none(self, key: str) -> float | None:
        return None if self.data.get(key) is None else self.number(key)

    def whole(self, key: str, *, least: int = 1) -> int:
        value = self._get(key)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self._refuse(key, f"a whole number of at least {least}")
        return value

    def whole_or_none(self, key: str) -> int | None:
        return None if self.data.get(key) is None else self.whole(key)

    def truth(self, key: str) -> bool:
        value = self._get(key)
        if not isinstance(value, bool):
            raise self._refuse(key, "true or false")
        return value

    def text(self, key: str) -> str:
        value = self._get(key)
        if not isinstance(value, str):
            raise self._refuse(key, "a text")
        return value

    def name(self, key: str) -> str:
        value = self.text(key)
        if _NAME.fullmatch(value) is None:
            raise self._refuse(key, "a name of letters, digits, '.', '_', '+' and '-'")
        return value

    def choice(self, key: str, accepted: tuple[str, ...]) -> str:
        value = self.text(key)
        if value not in accepted:
            raise self._refuse(key, f"one of {', '.join(accepted)}")
        return value

    def names(self, key: str) -> list[str]:
        value = self._get(key)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._refuse(key, "a list of texts")
        return value

    def items(self, key: str, *, least: int = 1) -> list[JsonObject]:
        value = self._get(key)
        if not isinstance(value, list) or len(value) < least:
            raise self._refuse(key, "a list with at least one member" if least else "a list")
        return [JsonObject(item, f"{self.where}: {key}[{i}]") for i, item in enumerate(value)]

    def inner(self, key: str) -> JsonObject:
        return JsonObject(self._get(key), f"{self.where}: {key}")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
