"""What a call of a compiled function runs: kernels, each on arrays by name."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from loopwright.calls.arguments import Arrays, Fresh
from loopwright.lazy_dataclass import dataclass
from loopwright.runtime.kernel import BoundKernel

__all__ = ["Launch", "Launches"]

Launch: TypeAlias = tuple[BoundKernel, tuple[str, ...]]  # with the arrays it takes, in its order


@dataclass(frozen=True, slots=True)
class Launches:
    """Kernels that run one after another, and the arrays that only they see."""

    temporaries: tuple[Fresh, ...]
    kernels: tuple[Launch, ...]

    @property
    def is_parallel(self) -> bool:
        """Whether threads share some of the work."""
        return any(kernel.threads > 1 for kernel, _ in self.kernels)

    def __call__(self, arrays: Arrays) -> None:
        """Run them all; `arrays` gets the temporary ones."""
        for name, shape, dtype in self.temporaries:
            arrays[name] = np.empty(shape, dtype)
        for kernel, names in self.kernels:
            kernel(*[arrays[name] for name in names])
