# Everything a developer runs. `make` alone lists the targets.

# A Python to use instead of the first good one that tools/setup finds, for example PYTHON=python3.12.
PYTHON ?=
# APT=no keeps `make peers` and `make setup` from installing Debian packages.
APT ?= yes
# How long `make fuzz` spends on each decoder.
FUZZ_SECONDS ?= 60
# More arguments for pytest, for example ARGS='-k keepty -x'.
ARGS ?=
# How many tests run at a time. Most of them wait for other processes, so there are twice as many as processors.
JOBS ?= $(shell echo $$((2 * $$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN))))
# For `make install`: uv, pipx or venv instead of the first that is there, and extras to install.
INSTALLER ?=
EXTRAS ?=
export PYTHON APT FUZZ_SECONDS INSTALLER EXTRAS

BIN := .venv/bin
# One stamp for each set of extras, and for each PYTHON, so that asking for another Python is not ignored.
READY := .venv/.ready-$(if $(PYTHON),$(notdir $(PYTHON))-)
SETUP_INPUTS := pyproject.toml requirements/dev.lock tools/setup
# The tests in which `make test` measures the coverage of formats and wire, which must reach a floor. Measuring makes tests
# slow, most of all those of long texts and those beside other readers, which cover nothing that others don't.
MEASURED := $(filter-out %_limits.py %_against_clojure.py %_sbcl.py,$(wildcard tests/formats/test_*.py tests/wire/test_*.py))
# mypy refuses a directory that has no Python in it.
CHECKED := $(foreach dir,src tests bench fuzz demo tools,$(if $(wildcard $(dir)/*.py $(dir)/*/*.py),$(dir)))

.PHONY: help setup peers install uninstall test test-peers slow soak coverage lint types imports pytest format sdk pages lock demo bench-formats bench-terminal bench-agent bench-chat bench-verify bench-control bench-hosted bench-state bench-dashboard bench-web bench-fleet fuzz clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(READY)dev ## make .venv with what development needs

$(READY)dev: $(SETUP_INPUTS)
	tools/setup dev
	@touch $@

$(READY)bench: $(SETUP_INPUTS)
	tools/setup dev bench
	@touch $@ $(READY)dev

$(READY)fuzz: $(SETUP_INPUTS)
	tools/setup dev fuzz
	@touch $@ $(READY)dev

peers: ## install the programs that tests compare with, and a browser, where apt-get may
	tools/peers --browser

install: ## put fairlead on your PATH (uv, pipx or a venv; INSTALLER= and EXTRAS=picture,models choose)
	tools/install

uninstall: ## take away what `make install` installed
	tools/install --remove

# Tests that take long (tests/slow.txt) run in test-peers, so that `make test` stays short; SLOW_TESTS=all runs them in both.
SLOW_TESTS ?= peers

test test-peers: export SLOW_TESTS := $(SLOW_TESTS)

test: setup peers lint types imports ## run every check and the tests but the slow ones
	$(BIN)/pytest -n auto -q --cov=fairlead.formats --cov=fairlead.wire --cov-report= $(MEASURED)
	$(BIN)/python tools/coverage_floor.py
	tools/pytest-again -n $(JOBS) --durations=30 $(ARGS) $(MEASURED:%=--ignore=%)

test-peers: setup ## slow tests, and those that need others: installing, many sessions, real peers
	tools/peers --python --npm
	$(BIN)/python -m tools.states --few
	PATH="$$PATH:$(CURDIR)/.venv/peers/bin" tools/pytest-again -m peers -n $(JOBS) $(ARGS)

slow: setup peers ## find out which tests are slow, and write tests/slow.txt
	rm -f .times
	-TEST_TIMES=$(CURDIR)/.times SLOW_TESTS=all $(BIN)/pytest -n $(JOBS) -q $(ARGS)
	$(BIN)/python tools/slow_tests.py .times
	rm -f .times

soak: setup ## the tests that kill daemons, with 200 kills each
	$(BIN)/pytest -m soak -n $(JOBS) $(ARGS)

coverage: setup peers ## run the tests with the coverage of all rooms
	$(BIN)/pytest -n $(JOBS) --cov=fairlead --cov-report=term $(ARGS)

lint: setup ## check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup ## check types
	$(BIN)/mypy $(CHECKED)

imports: setup ## check which room imports which
	$(BIN)/lint-imports --no-logo

pytest: setup ## run the tests alone; ARGS='-k word' chooses some
	$(BIN)/pytest -n $(JOBS) $(ARGS)

format: setup ## format the code and fix what ruff can fix
	$(BIN)/python tools/make_sdk.py
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

sdk: setup ## make the SDK without asyncio from the one with it, and docs/api.md
	$(BIN)/python tools/make_sdk.py
	$(BIN)/python tools/make_api.py

pages: setup ## make what docs has of the code: ops, settings, rooms, the API
	$(BIN)/python tools/rpc_page.py
	$(BIN)/python tools/make_configuration.py
	$(BIN)/python tools/make_architecture.py
	$(BIN)/python tools/make_api.py

lock: setup ## pin again everything that development installs (uses uv)
	tools/lock

demo: setup ## show both ends of each protocol talking, frame by frame
	$(BIN)/python demo/protocols.py
	$(BIN)/python demo/terminal.py
	$(BIN)/python demo/agent.py
	$(BIN)/python demo/hosted.py
	$(BIN)/python demo/verify.py
	$(BIN)/python demo/control.py
	$(BIN)/python demo/dashboard.py
	$(BIN)/python demo/worktrees.py
	$(BIN)/python demo/web.py
	$(BIN)/python demo/fleet.py

bench-formats: $(READY)bench ## compare the speed of the formats and decoders with their peers
	$(BIN)/python bench/formats.py

bench-terminal: $(READY)bench peers ## compare terminal sessions with tmux, dtach and screen, and draw it
	$(BIN)/python bench/terminal.py --plot docs/terminal-speed.svg

bench-agent: $(READY)bench ## measure agent sessions: requests, turns, hundreds of journals
	$(BIN)/python bench/agent.py

bench-chat: $(READY)bench ## measure the chat: an answer of 100 KB, drawn as Markdown and printed as it is
	$(BIN)/python bench/chat.py

bench-verify: $(READY)bench ## measure verified turns: what one costs, and many reports
	$(BIN)/python bench/verify.py

bench-hosted: $(READY)bench ## measure third-party agents: a line, a thousand updates, fifty sessions
	$(BIN)/python bench/hosted.py

bench-control: $(READY)bench ## measure the control room: health, signals, connections, a minute under attack
	$(BIN)/python bench/control.py

bench-state: $(READY)bench ## how often screen rules are right about recordings of real agents, which it makes if missing
	$(BIN)/python tools/npm_peers.py
	$(BIN)/python -m tools.pip_peers
	$(BIN)/python -m bench.state
	$(BIN)/python bench/state_cost.py

bench-dashboard: $(READY)bench ## measure the dashboard: its start, a key beside floods, what it takes when idle
	$(BIN)/python bench/dashboard.py

bench-web: $(READY)bench ## measure the web console: a key, throughput beside a bare relay, memory
	$(BIN)/python bench/web.py

bench-fleet: $(READY)bench ## measure a fleet: across two hosts beside bare NATS, and 200 simulated hosts
	$(BIN)/python bench/fleet.py

fuzz: $(READY)fuzz ## fuzz each decoder for FUZZ_SECONDS
	$(BIN)/python fuzz/run.py

clean: ## remove what the other targets made
	rm -rf .venv .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	rm -rf build dist src/fairlead.egg-info
	find src tests bench fuzz demo tools -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
