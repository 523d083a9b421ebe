# Each target is one command that works on a fresh machine with make and Python 3.11 or newer.
PYTHON ?= python3
WORKERS ?= auto
MINUTES ?= 30
LEVEL := test
VENV := .venv
BIN := $(VENV)/bin
# What runs needs NumPy and its like; what is developed needs the tools as well, in the same place.
RUNNING := $(VENV)/.running
STAMP := $(VENV)/.installed

.PHONY: demo test test-all lint unit hunt outside soak bench venv clean

demo: $(RUNNING)
	@$(BIN)/python -m loopwright demo

# Both at once, though they share their cores; what lint says stays together (make 4.0 and later).
SYNC := $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)
test: $(STAMP)
	@$(MAKE) --no-print-directory -j2 $(SYNC) LEVEL=$(LEVEL) lint unit

# The same with another part of the cases every day, and with what takes minutes: before an issue
# ends, at most an hour on two cores.
test-all:
	@$(MAKE) --no-print-directory LEVEL=all test

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Bytecode is kept, also where Python is told to write none. Workers take tests from each other, so
# that they end together, and keep the tests of a file on one of them as long as they can. Threads of
# OpenMP and OpenBLAS do not spin: where processors are busy, spinning takes them from the others.
PYTEST = TEST_LEVEL=$(LEVEL) PYTHONDONTWRITEBYTECODE= OMP_WAIT_POLICY=passive OPENBLAS_NUM_THREADS=1 \
  $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

# The + lets pytest write as it goes, where the output of targets is kept together. Assertions that
# tell their values take a minute to prepare: what fails runs a second time to tell them. No test
# asserts on time; one that has not ended after an hour has failed.
HANGS := -o faulthandler_timeout=4000 -o faulthandler_exit_on_timeout=true
unit: $(STAMP)
	+$(PYTEST) --report --assert=plain $(HANGS) || { \
	  test $$? -eq 1 && $(PYTEST) --last-failed --last-failed-no-failures=none; exit 1; }

# All combinations of which the others draw a part, and new examples of property tests: hours.
hunt: LEVEL := hunt
hunt: $(STAMP)
	$(PYTEST) --report

# The whole suites of other projects, of which `make test` runs a part.
outside: LEVEL := all
outside: $(STAMP)
	$(PYTEST) --report tests/outside

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
