# Every target makes the environment it needs; nothing but Python >= 3.11 is presumed.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Of `make test` and `make test-compiled`; 0: the tests run in one process. Only two of the workers run tests
# until those of Spark have ended (tests/support/scheduling.py).
WORKERS ?= 3

.PHONY: help env demo test test-cluster test-compiled lint check bench compat proofs format lock clean sim

help:  ## what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 16

# pip compiles all modules, one after another (20 s); the demo compiles those that it imports, and the
# development environment is compiled by as many processes as there are cores.
$(VENV)/.demo: requirements/demo.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Odradek needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements/demo.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@$(BIN)/python -m compileall -q src || true
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.demo
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements/dev.txt
	@$(BIN)/python -m compileall -q -j 0 $(VENV)/lib > /dev/null 2>&1 || true
	@touch $@

env: $(VENV)/.dev  ## the development environment in .venv

demo: $(VENV)/.demo  ## real data through the broker and Spark, reconciled
	$(BIN)/odradek demo

test: $(VENV)/.dev  ## the tests
	$(BIN)/python -m pytest -n $(WORKERS) $(ARGS)

test-cluster: $(VENV)/.dev  ## the tests of clusters of processes, and of simulated clusters
	$(BIN)/python -m pytest -m "cluster and not long" -n 2 $(ARGS)
	$(BIN)/python -m tests.sim --cluster 300

# A second environment that has the wheel, and everything else from the first one.
COMPILED := build/compiled
$(COMPILED)/.made: $(VENV)/.dev hatch_build.py pyproject.toml $(shell find src -name '*.py' -o -name '*.msg')
	@rm -rf $(COMPILED)
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir $(COMPILED) .
	$(BIN)/python -m venv --without-pip $(COMPILED)/venv
	$(BIN)/python -m pip --python $(COMPILED)/venv/bin/python install --quiet --disable-pip-version-check --no-deps --no-index $(COMPILED)/*.whl
	@$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > "$$($(COMPILED)/venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/development.pth"
	$(COMPILED)/venv/bin/odradek --version
	@touch $@

test-compiled: $(COMPILED)/.made  ## the tests against the compiled wheel
	ODRADEK_REQUIRE="$${ODRADEK_REQUIRE:+$$ODRADEK_REQUIRE,}compiled" $(COMPILED)/venv/bin/python -m pytest -n $(WORKERS) $(ARGS)

lint: $(VENV)/.dev  ## format, lint, types, who imports whom
	$(BIN)/ruff format --check src tests bench compat
	$(BIN)/ruff check src tests bench compat
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

check: lint  ## the same, and the tests of the code's form (make test runs them too)
	$(BIN)/python -m pytest -q tests/tidy

format: $(VENV)/.dev  ## format the code
	$(BIN)/ruff format src tests bench compat
	$(BIN)/ruff check --fix src tests bench compat

compat: $(VENV)/.dev  ## other people's clients against a node
	$(BIN)/python -m compat $(ARGS)

sim: $(VENV)/.dev  ## 200 seeds of a node and 300 of a cluster in simulation
	$(BIN)/python -m tests.sim $(ARGS)

proofs: $(VENV)/.dev  ## the long tests at full size, each stored in bench/proofs/results
	$(BIN)/python -m bench.proofs $(ARGS)

bench: $(VENV)/.dev  ## side by side with Apache Kafka
	$(BIN)/python -m bench $(ARGS)

lock:  ## pin the dependencies anew (needs uv)
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --extra demo pyproject.toml -o requirements/demo.txt --no-emit-package odradek
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --extra dev pyproject.toml -o requirements/dev.txt --no-emit-package odradek

clean:  ## remove what was made
	rm -rf $(VENV) build dist demo-output .mypy_cache .ruff_cache .pytest_cache .hypothesis
