"""The gravimetry example: derivative, products, solvers, inversions, memory, command."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from examples.gravimetry import __main__ as command
from examples.gravimetry import kernels
from examples.gravimetry.engines import (
    DenseEngine,
    Engine,
    MatrixFreeEngine,
    NumpyEngine,
    fitting,
)
from examples.gravimetry.inversion import SOLVERS, invert
from examples.gravimetry.survey import Survey, bumps, synthetic_survey

ENGINES = (DenseEngine, MatrixFreeEngine, NumpyEngine)


def some_surface(survey: Survey) -> np.ndarray:
    return survey.start() + np.random.default_rng(3).uniform(-0.5, 0.5, survey.field.shape)


def matrix(survey: Survey, z: np.ndarray) -> np.ndarray:
    """J by NumPy, in extended precision where there is one."""
    x, y, wide = (v.astype(np.longdouble) for v in (survey.x, survey.y, z))
    s = (x[:, None, None, None] - x[:, None]) ** 2 + (y[:, None, None] - y) ** 2 + wide**2
    found = -np.longdouble(survey.scale) * wide / (s * np.sqrt(s))
    return found.astype(np.float64).reshape(survey.points, survey.points)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("shape", [(5, 5), (6, 4), (1, 3)])
@pytest.mark.parametrize(
    "make", [kernels.assemble, kernels.assemble_quickly, kernels.assemble_mirrored]
)
def test_the_derivative_is_that_of_the_formula(make: Any, shape: tuple[int, int]) -> None:
    survey, _ = synthetic_survey(*shape)
    z, found = some_surface(survey), np.empty((*shape, *shape))
    make(survey.x, survey.y, z, survey.scale, found)
    right = matrix(survey, z)
    np.testing.assert_allclose(found.reshape(right.shape), right, rtol=2e-15)


@pytest.mark.parametrize("engine_type", ENGINES)
def test_the_derivative_is_that_of_the_field(engine_type: Any) -> None:
    """Central differences of the field in a direction, against products with J."""
    survey, _ = synthetic_survey(7, 6)
    engine, z = engine_type(survey), some_surface(survey)
    direction = np.random.default_rng(4).normal(size=z.shape)
    step = 1e-4
    change = engine.field(z + step * direction) - engine.field(z - step * direction)
    image = (matrix(survey, z) @ direction.ravel()).reshape(z.shape)
    np.testing.assert_allclose(change / (2 * step), image, atol=1e-6 * np.abs(image).max())


def test_the_synthetic_field_is_that_of_its_surface() -> None:
    survey, truth = synthetic_survey(9, 8)
    for engine_type in ENGINES:
        engine: Engine = engine_type(survey)
        near = 1e-13 * np.abs(survey.field).max() * survey.points
        np.testing.assert_allclose(engine.field(truth), survey.field, rtol=0, atol=near)
        np.testing.assert_allclose(engine.field(survey.start()), 0, rtol=0, atol=near)
    np.testing.assert_array_equal(bumps(survey.x, survey.y, relief=()), survey.start())
    noisy, _ = synthetic_survey(9, 8, noise=0.01)
    errors = np.linalg.norm(noisy.field - survey.field)
    assert np.isclose(errors, 0.01 * np.linalg.norm(survey.field))


@pytest.mark.parametrize("solver", SOLVERS)
def test_inversions_find_the_surface(solver: str) -> None:
    survey, truth = synthetic_survey(14)
    found = [invert(survey, engine_type(survey), solver) for engine_type in ENGINES]
    for inversion in found:
        assert inversion.residual <= 1e-3
        relief = np.linalg.norm(truth - survey.depth)
        assert np.linalg.norm(inversion.surface - truth) < 0.05 * relief
        np.testing.assert_allclose(inversion.surface, found[-1].surface, atol=1e-6)
        residuals = [step.residual for step in inversion.steps]
        assert residuals == sorted(residuals, reverse=True)


def test_without_room_there_is_no_matrix() -> None:
    survey, _ = synthetic_survey(5)
    assert survey.matrix_bytes == 8 * 25**2
    assert isinstance(fitting(survey, survey.matrix_bytes), DenseEngine)
    assert isinstance(fitting(survey, survey.matrix_bytes - 1), MatrixFreeEngine)
    assert isinstance(fitting(survey), DenseEngine)


def test_the_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given = ["--grid", "10", "--pictures", str(tmp_path), "--steps", "--table"]
    monkeypatch.setattr(sys, "argv", ["gravimetry", *given])
    command.main()
    out = capsys.readouterr().out
    for text in ("the matrix takes 80,000 bytes", "step 0: residual 1.00e+00", "relief off by"):
        assert text in out
    for name in ("surfaces.svg", "convergence.svg"):
        assert (tmp_path / name).read_text(encoding="utf-8").startswith("<svg")
    monkeypatch.setattr(sys, "argv", ["gravimetry", "--grid", "10", "--noise", "0.05", "--steps"])
    command.main()
    assert "step 3" not in capsys.readouterr().out  # no search for what is in the errors
    monkeypatch.setattr(sys, "argv", ["gravimetry", "--grid", "1"])
    with pytest.raises(SystemExit):
        command.main()
    assert "--grid takes 2 and more" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["gravimetry", "--grid", "8", "--race", "--rounds", "1"])
    command.main()
    assert "solve: " in capsys.readouterr().out
