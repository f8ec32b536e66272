# Everything a developer does, from a fresh checkout. Only Python 3.11 or newer has to be there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DATA_DIR ?= odradek-data
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt

# Many containers set it, and then each of the hundreds of processes that the tests start compiles the sources again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run test test-fast test-pythons proof flaky test-reference test-slow check sim chaos exactly-once spark-kills bench bench-metadata bench-failover bench-broker-failover bench-replicas bench-columns bench-spark bench-spark-writes bench-groups bench-counting bench-validation bench-assertions bench-authorizer bench-security bench-compaction bench-stalls bench-console pipeline pipeline-connector docs words dist clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-22s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Unless PYTHON is given, the cluster runs on an interpreter that was built with optimizations, if there is one. All other
# targets use the python3 on the PATH. Whichever comes first creates $(VENV), and tests pass with either.
ifeq ($(origin PYTHON),file)
run: PYTHON = $(shell python3 tools/find_python.py 2>/dev/null || echo python3)
endif
run: $(VENV)/.installed-fast $(VENV)/.installed-console ## start a cluster on this machine, and its console (PORT=9092, BROKERS=1, DATA_DIR=odradek-data, CONSOLE_PORT=8080)
	@$(BIN)/odradek up --data-dir $(DATA_DIR) $(if $(PORT),--port $(PORT)) $(if $(BROKERS),--brokers $(BROKERS)) $(if $(CONSOLE_PORT),--console-port $(CONSOLE_PORT))

# In an environment of its own, which contains only the extra [dev]: a test that needs more packages fails here.
test-fast: $(VENV)-dev/.installed-dev ## unit, core and storage tests and a few simulator seeds (ARGS="-k fetch")
	@$(VENV)-dev/bin/python -m pytest --tier fast --numprocesses 3 --max-worker-restart 0 $(ARGS)

# More workers than cores, because tests with processes wait for most of their time.
test: $(VENV)/.installed-test ## every capability; lists the tests skipped because a component is missing (ARGS="-k fetch")
	@$(BIN)/python -m tests.prepare
	@$(BIN)/python -m pytest --tier test --numprocesses 4 --max-worker-restart 0 --rerun-failed $(ARGS)

proof: $(VENV)/.installed-test ## every test and the long runs, for hours, with a report in proof-report.md (ONLY=suite,sim,chaos)
	@$(BIN)/python -m tests.prepare --proof
	@$(BIN)/python -m tests.tiers.proof $(if $(ONLY),--only $(ONLY)) $(ARGS)

flaky: $(VENV)/.installed-test ## repeat one test until it fails, on an artificially slow computer (TEST=tests/wire/test_groups.py::test_…, COUNT=50)
	@$(if $(TEST),,echo "name a test: make flaky TEST=tests/wire/test_groups.py"; exit 2)
	@$(BIN)/python -m tests.tiers.repeat --count $(or $(COUNT),50) $(TEST)

# An interpreter that is missing is reported; with CI=true it is a failure.
test-pythons: ## run `make test-fast` with each supported Python that is installed, in environments of their own (PYTHONS="3.11 3.12 3.13")
	@$(PYTHON) tests/tiers/pythons.py $(or $(PYTHONS),3.11 3.12 3.13)

test-reference: $(VENV)/.installed-test ## run the tests of clients and tools against Apache Kafka in Odradek's place
	@$(BIN)/python -m pytest --reference -m reference $(ARGS)

test-slow: $(VENV)/.installed-test ## tests of clocks, processes and sockets on an artificially slow computer (ARGS="tests/wire")
	@$(BIN)/python -m pytest --numprocesses 3 -p tests.slow_computer $(or $(ARGS),$(addprefix tests/,wire testing cluster kafka console arrow spark))

check: $(VENV)/.installed-check ## format, lint, types, import contracts and words
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m tools.words

sim: $(VENV)/.installed-fast ## run nodes in the simulator with injected faults (SEEDS=1000; ARGS="--seed 7 --trace")
	@$(BIN)/python -m odradek.sim $(if $(SEEDS),--seeds $(SEEDS)) $(ARGS)

chaos: $(VENV)/.installed-test ## kill, pause and partition real nodes while clients check every record (MINUTES=2, KILLS=1000, SEED=7; CONTROLLER_KILLS=100)
ifdef CONTROLLER_KILLS
	@ODRADEK_CONTROLLER_KILLS=$(CONTROLLER_KILLS) ODRADEK_FROZEN_SECONDS=30 $(BIN)/python -m pytest $(addprefix tests/cluster/test_,kill_active_controller.py frozen_controller.py partitions.py) $(ARGS)
else
	@$(BIN)/python -m tests.chaos $(if $(KILLS),--kills $(KILLS),--minutes $(or $(MINUTES),2)) $(if $(SEED),--seed $(SEED)) $(ARGS)
endif

exactly-once: $(VENV)/.installed-test ## run Kafka's system tests of transactions: copy records while brokers and copiers are killed (RECORDS=100000); needs Java 17 and Maven
	@$(BIN)/python -m tests.exactly_once --records $(or $(RECORDS),100000) $(ARGS)

spark-kills: $(VENV)/.installed-test ## kill drivers, executors, workers and brokers while Spark writes topics and tables exactly once (KILLS=5 of each kind, SEED=1); needs Java 17
	@$(BIN)/python -m tests.spark.sink_kills --kills $(or $(KILLS),5) --seed $(or $(SEED),1)
	@ODRADEK_SPARK_KILLS=$(or $(KILLS),5) ODRADEK_JOB_KILLS=$(or $(KILLS),5) ODRADEK_SPARK_SEED=$(or $(SEED),1) $(BIN)/python -m pytest \
	    -p no:xdist --capture no tests/spark/test_job_commands.py tests/spark/test_standalone_cluster.py -k killed

bench: $(VENV)/.installed-bench ## compare Odradek with Apache Kafka (ARGS=--quick for a smoke run, ARGS="--only consume_1024,limits"); needs Java 17 and Maven
	@$(BIN)/python -m bench $(ARGS)

bench-metadata: $(VENV)/.installed-bench ## measure the cost of metadata, up to a million partitions (ARGS=--quick up to a hundred thousand)
	@$(BIN)/python -m bench.metadata $(ARGS)

bench-failover: $(VENV)/.installed-bench ## measure the failover of the active controller, also for Kafka; needs Java 17 and Maven
	@$(BIN)/python -m bench.failover $(ARGS)

bench-broker-failover: $(VENV)/.installed-bench ## measure the failover of a partition's leader, also for Kafka; needs Java 17 and Maven
	@$(BIN)/python -m bench.broker_failover $(ARGS)

bench-replicas: $(VENV)/.installed-bench ## measure the cost of thousands of replicas on idle brokers
	@$(BIN)/python -m bench.replicas $(ARGS)

bench-columns: $(VENV)/.installed-bench ## measure reading segments as Arrow columns, up to fifty million records (ARGS=--quick up to two million)
	@$(BIN)/python -m bench.columns $(ARGS)

bench-spark: $(VENV)/.installed-pipeline ## measure reading a topic with Spark through format("odradek") and its own connector; needs Java 17 and Maven
	@$(BIN)/python -m bench.spark_rows $(ARGS)

bench-spark-writes: $(VENV)/.installed-pipeline ## measure writing a topic with Spark through format("odradek") and its own connector; needs Java 17 and Maven
	@$(BIN)/python -m bench.spark_writes $(ARGS)

bench-groups: $(VENV)/.installed-bench ## measure a thousand groups on three brokers, idle and during failures (MINUTES=10, ARGS=--quick)
	@$(BIN)/python -m bench.groups $(if $(MINUTES),--minutes $(MINUTES)) $(ARGS)

bench-counting: $(VENV)/.installed-bench ## measure the cost of metrics and hot keys on a broker (ARGS=--quick)
	@$(BIN)/python -m bench.counting $(ARGS)

bench-validation: $(VENV)/.installed-bench ## measure the cost of record.validation=full on a broker
	@$(BIN)/python -m bench.record_validation $(ARGS)

bench-assertions: $(VENV)/.installed-bench ## measure the cost of assertions of invariants on a broker
	@$(BIN)/python -m bench.assertions $(ARGS)

bench-authorizer: $(VENV)/.installed-bench ## measure checks of the authorizer with a hundred thousand ACLs
	@$(BIN)/python -m bench.authorizer $(ARGS)

bench-security: $(VENV)/.installed-bench ## compare TLS with Apache Kafka, and measure the cost of authorization and quotas; needs Java 17 and Maven
	@$(BIN)/python -m bench.security $(ARGS)

bench-compaction: $(VENV)/.installed-bench ## measure produce and fetch while a large log is compacted, with and without numba (ARGS="--megabytes 100")
	@$(BIN)/python -m bench.compaction $(ARGS)

bench-stalls: $(VENV)/.installed-bench ## measure the longest stall of a broker's event loop under load of all kinds, with its cause (ARGS="--seconds 600 --without-numba")
	@$(BIN)/python -m bench.stalls $(ARGS)

bench-console: $(VENV)/.installed-test ## measure the console with ten thousand topics and groups (TOPICS=10000); needs Chromium and Node.js
	@ODRADEK_CONSOLE_TOPICS=$(or $(TOPICS),10000) $(BIN)/python -m pytest tests/console/test_large.py $(ARGS)

# Check for Java before installing Spark, so that a missing Java is reported within a second.
pipeline: $(BIN)/pip java-for-spark $(VENV)/.installed-pipeline ## run the shop example: a cluster, orders, a table, totals, an audit and a chart; needs Java 17
	@$(BIN)/python -m examples.shop $(ARGS)

pipeline-connector: $(BIN)/pip java-for-spark $(VENV)/.installed-pipeline ## run the orders example through Spark's own Kafka connector; needs Java 17 and Maven
	@$(BIN)/python -m examples.orders $(ARGS)

.PHONY: java-for-spark
java-for-spark: | $(BIN)/pip
	@$(BIN)/python -m examples.runtime.java

docs: $(VENV)/.installed-docs ## build the documentation site into site/ (SERVE=1: serve it on http://127.0.0.1:8000 instead)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs $(if $(SERVE),serve,build --strict --quiet)

words: $(BIN)/pip ## find words that user-facing text must not contain (tools/words.py)
	@$(BIN)/python -m tools.words

dist: $(VENV)/.installed-dist ## build wheel and sdist, and run the README's first five minutes against the wheel in an empty environment
	@$(BIN)/python -m tools.dist

clean: ## remove .venv, caches and results; data directories stay
	rm -rf $(VENV) site dist build $(VENV)-* .cache proof-logs proof-report.md bench-results pipeline-results .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests bench examples -name __pycache__ -prune -exec rm -rf {} +

# One stamp per extra, so that a second run starts at once and `make run` never waits for Spark.
$(VENV)/.installed-%: pyproject.toml constraints.txt | $(BIN)/pip
	@echo "installing odradek[$*] into $(VENV) (once)"
	@$(PIP) --editable '.[$*]'
	@touch $@

$(VENV)-dev/.installed-dev: pyproject.toml constraints.txt
	@$(MAKE) --no-print-directory VENV=$(VENV)-dev $@

$(BIN)/pip:
	@python=$(PYTHON); \
	$$python -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "odradek: Python 3.11 or newer is needed and '$$python' is %d.%d; name another one: make PYTHON=python3.12" % sys.version_info[:2])' || exit 1; \
	$$python -c 'import ensurepip' 2>/dev/null || { echo "odradek: $$python cannot create virtual environments; on Debian: apt install python3-venv"; exit 1; }; \
	echo "creating $(VENV) with $$python"; \
	$$python -m venv $(VENV)
