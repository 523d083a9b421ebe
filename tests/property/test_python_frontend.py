"""Random functions of loops mean the same to Python and to the front end."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontends.kernels import assert_same, bind, compiled, interpreted
from loopwright.analysis.subscript_bounds import bounds_violation, find_violation, predicate
from loopwright.diagnostics import InternalError
from property.python_functions import PythonFunction, python_functions


@given(python_functions(), st.integers(0, 5), st.integers(0, 3))
def test_programs_mean_what_python_means(kernel: PythonFunction, n: int, seed: int) -> None:
    function, args = kernel.define(), kernel.arguments(n, seed)
    tree, program = compiled(function, *args)
    _, params = bind(tree, args)
    violated = predicate(bounds_violation(program))(params)
    assert violated == (find_violation(program, params) is not None)
    if not violated:
        assert_same(function, *args)
        return
    with pytest.raises(InternalError), np.errstate(all="ignore"):
        interpreted(function, *args)
