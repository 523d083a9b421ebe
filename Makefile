# Each target is one command that works on a fresh machine with make and Python 3.11 or newer.
PYTHON ?= python3
WORKERS ?= auto
MINUTES ?= 30
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test lint unit hunt outside soak bench venv clean

demo: $(STAMP)
	$(BIN)/python -m loopwright demo

# Both at once, though they share their cores; what lint says stays together (make 4.0 and later).
SYNC := $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)
test: $(STAMP)
	@$(MAKE) --no-print-directory -j2 $(SYNC) lint unit

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The + lets pytest write as it goes, where the output of targets is kept together.
unit: $(STAMP)
	+$(BIN)/python -m pytest -n $(WORKERS)

# All combinations of which `make test` draws a part, and new examples of property tests.
hunt: $(STAMP)
	HYPOTHESIS_PROFILE=hunt $(BIN)/python -m pytest -n $(WORKERS)

# The whole suites of other projects, of which `make test` runs a part.
outside: $(STAMP)
	OUTSIDE=all $(BIN)/python -m pytest -n $(WORKERS) tests/outside

# Random campaigns for some minutes: make soak MINUTES=30.
soak: $(STAMP)
	PYTHONPATH=tests $(BIN)/python -m outside.campaigns.soak --minutes $(MINUTES)

bench: $(STAMP)
	$(BIN)/python -m benchmarks

venv: $(STAMP)

$(STAMP): pyproject.toml
	@$(PYTHON) .ci/set_up.py $(VENV) $(STAMP)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build
