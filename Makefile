# Each target is one command that works on a fresh machine with make and Python 3.11 or newer.
PYTHON ?= python3
WORKERS ?= auto
MINUTES ?= 30
VENV := .venv
BIN := $(VENV)/bin
# What runs needs NumPy and its like; what is developed needs the tools as well, in the same place.
RUNNING := $(VENV)/.running
STAMP := $(VENV)/.installed

.PHONY: demo test lint unit hunt outside soak bench venv clean

demo: $(RUNNING)
	@$(BIN)/python -m loopwright demo

# Both at once, though they share their cores; what lint says stays together (make 4.0 and later).
SYNC := $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)
test: $(STAMP)
	@$(MAKE) --no-print-directory -j2 $(SYNC) lint unit

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Bytecode is kept, also where Python is told to write none. Workers take tests from each other, so
# that they end together, and keep the tests of a file on one of them as long as they can.
PYTEST = PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

# The + lets pytest write as it goes, where the output of targets is kept together. Assertions that
# tell their values take a minute to prepare: what fails runs a second time to tell them.
unit: $(STAMP)
	+$(PYTEST) --assert=plain || { \
	  test $$? -eq 1 && $(PYTEST) --last-failed --last-failed-no-failures=none; exit 1; }

# All combinations of which `make test` draws a part, and new examples of property tests.
hunt: $(STAMP)
	HYPOTHESIS_PROFILE=hunt $(PYTEST)

# The whole suites of other projects, of which `make test` runs a part.
outside: $(STAMP)
	OUTSIDE=all $(PYTEST) tests/outside

# Random campaigns for some minutes: make soak MINUTES=30.
soak: $(STAMP)
	PYTHONPATH=tests $(BIN)/python -m outside.campaigns.soak --minutes $(MINUTES)

bench: $(STAMP)
	$(BIN)/python -m benchmarks

venv: $(STAMP)

$(RUNNING): pyproject.toml
	@$(PYTHON) .ci/set_up.py $(VENV) running

$(STAMP): pyproject.toml
	@$(PYTHON) .ci/set_up.py $(VENV) developing

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build
