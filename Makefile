# Every target makes the environment it needs; nothing but Python >= 3.11 is presumed.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Of `make test`; 0: the tests run in one process. There are more than processors, because many tests wait
# (tests/support/scheduling.py).
WORKERS ?= 4
# The bytecode of tests is kept, also where the environment says otherwise: each worker would compile all tests.
export PYTHONDONTWRITEBYTECODE =

.PHONY: help env demo wheel test test-cluster test-newest env-newest durations lint check bench compat proofs \
	format lock clean sim seeds

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

# A second environment that has the wheel, and everything else from the first one. What is tested is what pip
# installs: compiled if there is a C compiler.
WHEEL := $(VENV)/wheel
INSTALLED := $(WHEEL)/venv/bin/python
$(WHEEL)/.made: $(VENV)/.dev hatch_build.py pyproject.toml $(shell find src -path '*/generated' -prune -o -name '*.py' -print -o -name '*.msg' -print)
	@rm -rf $(WHEEL)
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir $(WHEEL) .
	$(BIN)/python -m venv --without-pip $(WHEEL)/venv
	$(BIN)/python -m pip --python $(INSTALLED) install --quiet --disable-pip-version-check --no-deps --no-index $(WHEEL)/*.whl
	@$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > "$$($(INSTALLED) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/development.pth"
	$(WHEEL)/venv/bin/odradek --version
	@touch $@

wheel: $(WHEEL)/.made  ## the wheel, in an environment of its own, which the tests use

test: $(WHEEL)/.made  ## the tests, on the wheel
	$(INSTALLED) -m pytest -n $(WORKERS) $(ARGS)

test-cluster: $(WHEEL)/.made  ## the tests of clusters of processes, and of simulated clusters
	$(INSTALLED) -m pytest -m "cluster and not long" -n $(WORKERS) $(ARGS)

durations: $(WHEEL)/.made  ## store how long the tests take, in tests/durations.json; needs a machine that does nothing else
	$(INSTALLED) -m pytest -m "not long" -n $(WORKERS) --store-durations $(ARGS)

# The check runs on the oldest Python that Odradek supports; this is a short look at the newest one.
NEWEST = $(shell $(PYTHON) -m compat.lab.pythons)
NEWEST_VENV := .venv-newest
NEWEST_TESTS := tests/compiled/test_imports.py tests/tls/test_listeners.py tests/tls/test_https.py \
	"tests/spark/test_source.py::test_a_batch_reads_between_offsets_and_times" \
	"tests/node/test_secure_cluster.py::test_nodes_replicate_over_sasl_ssl"
env-newest:
	@if [ -n "$(NEWEST)" ]; then $(MAKE) PYTHON=$(NEWEST) VENV=$(NEWEST_VENV) env; fi

test-newest: env-newest  ## with the newest Python of this machine: all imports, TLS, Spark, one cluster
	@if [ -z "$(NEWEST)" ]; then echo "There is no Python newer than 3.11 here: nothing is tested."; else \
	$(NEWEST_VENV)/bin/python -m pytest -n 2 -m "not long" $(NEWEST_TESTS) $(ARGS); fi

# Code that has another algorithm where it is not compiled, and tests that replace methods of it or that need the
# source: in the checkout nothing is compiled.
PURE_TESTS := tests/records tests/log/cleaner tests/spark/test_decoding.py tests/spark/test_chunks.py \
	tests/pipelines/test_catalogue.py tests/cli/test_pipeline_errors.py \
	tests/sim/test_simulation.py::test_an_acknowledgement_before_the_write_is_found \
	tests/sim/test_planted_in_a_cluster.py tests/client/test_regressions.py

lint: $(VENV)/.dev  ## format, lint, types, who imports whom
	$(BIN)/ruff format --check src tests bench compat .ci
	$(BIN)/ruff check src tests bench compat .ci
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

check: lint  ## the same, the tests of sources and documents, and those of code that differs in pure Python
	$(BIN)/python -m pytest -q -n 2 -m "not java and not long" tests/tidy $(PURE_TESTS)

format: $(VENV)/.dev  ## format the code
	$(BIN)/ruff format src tests bench compat .ci
	$(BIN)/ruff check --fix src tests bench compat .ci

compat: $(VENV)/.dev  ## other people's clients against a node
	$(BIN)/python -m compat $(ARGS)

sim: $(VENV)/.dev  ## 200 seeds of a node and 300 of a cluster in simulation
	$(BIN)/python -m tests.sim $(ARGS)

seeds: $(WHEEL)/.made  ## fewer seeds: of each commit others, because its id gives the first seed
	$(INSTALLED) -m tests.sim 12
	$(INSTALLED) -m tests.sim --cluster 20

proofs: $(VENV)/.dev  ## the long tests at full size, each stored in bench/proofs/results
	$(BIN)/python -m bench.proofs $(ARGS)

bench: $(VENV)/.dev  ## side by side with Apache Kafka
	$(BIN)/python -m bench $(ARGS)

lock:  ## pin the dependencies anew (needs uv)
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --extra demo pyproject.toml -o requirements/demo.txt --no-emit-package odradek
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --extra dev pyproject.toml -o requirements/dev.txt --no-emit-package odradek

clean:  ## remove what was made
	rm -rf $(VENV) .venv-newest build dist demo-output .mypy_cache .ruff_cache .pytest_cache .hypothesis
