# Two commands are enough: `make demo` shows what noiseaware does, `make test` checks that it does it.
# `make test PYTHON=python3.13` has an environment of its own, in .venv-python3.13.
PYTHON ?= python3
VENV := .venv$(if $(filter-out python3,$(PYTHON)),-$(notdir $(PYTHON)))
RUN := $(VENV)/bin/python
READY := $(VENV)/.ready
# Many tests start a Python of their own, which starts twice as fast with its files compiled.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo test oldest format lint browser coverage docs validate chaos fuzz bench dist clean

help:
	@echo "make demo      from a release file to a posterior and a readable report"
	@echo "make test      format, lint, types and the test suite"
	@echo "make oldest    part of the suite, with the oldest version of every dependency that is allowed"
	@echo "make validate  the heavy exactness checks (SBC and Geweke in full), and the real OpenDP, diffprivlib, NumPyro, BlackJAX, PyMC, Dask, Ray"
	@echo "make coverage  which Python lines the tests reach (compiled functions left out), in htmlcov"
	@echo "make docs      runs the notebooks and makes the site, in docs/_build/html; needs no network once it is set up"
	@echo "make chaos     kill -9 at random moments: sample, fit and study go on with the same results"
	@echo "make fuzz      6,200 mutated files through the command: one line each, no traceback"
	@echo "make bench     the benchmark tables, as ratios measured in one run"
	@echo "make dist      wheel and sdist, in dist; a posterior from the wheel in an empty environment"
	@echo "make browser   Chromium for the tests of the report, by apt-get if need be; test calls it"
	@echo "make setup     only the environment in $(VENV); the others call it"

setup: $(READY)

$(READY): pyproject.toml requirements/dev.txt
	@echo "Setting up $(VENV) (once, one to two minutes) ..."
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "noiseaware needs Python 3.11 or newer")'
	@$(PYTHON) -m venv $(VENV)
	@$(RUN) -m pip install --quiet --disable-pip-version-check -r requirements/dev.txt
	@$(RUN) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@echo "Compiling (once, half a minute) ..."
	@$(RUN) examples/demo.py --compile
	@touch $@

demo: $(READY)
	@$(RUN) examples/demo.py

format: $(READY)
	$(RUN) -m ruff format --check .
	$(RUN) -m ruff check .

lint: format
	$(RUN) -m mypy

# The report is looked at in Chromium. Without it those tests are skipped, and say so.
browser:
	@if command -v chromium >/dev/null && command -v chromedriver >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && [ -f /etc/debian_version ]; then \
		echo "Installing Chromium for the tests of the report ..."; \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
			--no-install-recommends chromium chromium-driver; } >/dev/null 2>&1 \
		|| echo "It could not be installed; the tests that need it are skipped."; \
	else \
		echo "To test the report in a browser: sudo apt-get install chromium chromium-driver"; \
	fi

# A file is run by one worker, which compiles and draws what the tests of the file share; which file
# is first is said in tests/conftest.py. mypy, which keeps one core busy, runs beside them, and has its
# say at the end.
SPREAD := -n 2 --dist loadfile --no-loadscope-reorder
test: format browser
	@$(RUN) -m mypy >$(VENV)/mypy.log 2>&1 & types=$$!; \
	$(RUN) -m pytest -m "not full" $(SPREAD); tests=$$?; \
	wait $$types; types=$$?; cat $(VENV)/mypy.log; rm $(VENV)/mypy.log; exit $$((tests | types))

# Old libraries warn about one another: here a warning is no error.
OLDEST := .venv-oldest
oldest:
	@test -x $(OLDEST)/bin/python || $(PYTHON) -m venv $(OLDEST)
	@$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check -r requirements/oldest.txt
	@$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	$(OLDEST)/bin/python -m pytest -m "not full" -W default tests/protocol/test_queries.py \
		tests/behaviour/test_export.py tests/behaviour/test_files.py tests/behaviour/test_plots.py

coverage: $(READY) browser
	$(RUN) -m pytest -m "not full" $(SPREAD) --cov --cov-report=term --cov-report=html

# Installed only if it is missing, so that the site builds without network.
docs: $(READY)
	@$(RUN) -c 'import furo, myst_nb, opendp; __import__("sphinx-mathjax-offline")' 2>/dev/null \
		|| $(RUN) -m pip install --quiet --disable-pip-version-check -r requirements/docs.txt
	@$(RUN) -m sphinx -q -n -W --keep-going docs docs/_build/html
	@echo "The site: docs/_build/html/index.html"

# ArviZ's pictures have an environment of their own: on Python 3.11 they need an older Matplotlib.
PLOTS := .venv-plots
validate: $(READY)
	@$(RUN) -m pip install --quiet --disable-pip-version-check -r requirements/interop.txt -r requirements/docs.txt -r requirements/jax.txt -r requirements/engines.txt -r requirements/pymc.txt
	$(RUN) -m pytest -n 2 tests/behaviour/test_interop_opendp.py tests/behaviour/test_interop_opendp_frames.py tests/behaviour/test_interop_diffprivlib.py tests/behaviour/test_interop_diffprivlib_models.py tests/behaviour/test_interop_tumult.py tests/behaviour/test_interop_tables.py tests/behaviour/test_interop_results.py tests/behaviour/test_frames.py tests/behaviour/test_estimators.py
	@test -x $(PLOTS)/bin/python || $(PYTHON) -m venv $(PLOTS)
	@$(PLOTS)/bin/python -m pip install --quiet --disable-pip-version-check -r requirements/dev.txt
	@$(PLOTS)/bin/python -m pip install --quiet --disable-pip-version-check -r requirements/plots.txt
	@$(PLOTS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	$(PLOTS)/bin/python -m pytest tests/behaviour/test_arviz_plots.py
	$(RUN) -m pytest -m "not full" tests/exact/test_jax.py tests/exact/test_noisy.py tests/exact/test_noisy_pymc.py
	$(RUN) -m pytest -m full -n 2 -v

chaos: $(READY)
	cd tests && ../$(RUN) -m chaos.chaos 100 10

fuzz: $(READY)
	cd tests && ../$(RUN) -m fuzz.fuzzing 5000 1000
	cd tests && ../$(RUN) -m fuzz.fuzzing 150 50 --seed 2 --real

bench: $(READY)
	@$(RUN) -m pip install --quiet --disable-pip-version-check -r requirements/bench.txt
	$(RUN) -m benchmarks

# Three commands, from an empty environment to a posterior.
dist: $(READY)
	@rm -rf dist
	@$(RUN) -m hatchling build
	@$(PYTHON) -m venv dist/empty
	@echo "Trying the wheel in an empty environment ..."
	@cd dist && start=$$(date +%s) \
		&& empty/bin/python -m pip install --quiet --disable-pip-version-check *.whl \
		&& empty/bin/noiseaware examples empty/first-steps \
		&& cd empty/first-steps && ../bin/noiseaware fit exercise_release.json \
			--model exercise_model.toml --out posterior.nc --report report.html --seed 1 \
		&& echo "From an empty environment to a posterior: $$(($$(date +%s) - start)) s"
	@rm -r dist/empty

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache build dist htmlcov .coverage docs/_build
