# What one does with telesrv, one verb each. `make` alone explains them.

VENV := .venv
PY := $(VENV)/bin/python
CLIENTS := .venv-clients
KURIGRAM := kurigram==2.2.26
PYROGRAM := pyrogram==2.0.106
PHONENUMBERS := phonenumbers==9.0.43

# The interpreter that the environments are made with: the first one that is new enough.
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
	$$python -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)

.DEFAULT_GOAL := help
.PHONY: help run migrate test test-clients test-tdesktop test-processes soak load fuzz fmt check check-gen gen facts countries clients

help: ## this list
	@echo 'telesrv: a chat server that Telegram clients can talk to.'
	@echo
	@echo '  make run     starts it with its own PostgreSQL and Valkey; nothing else is needed.'
	@echo '               Then: .venv/bin/telesrv-admin --help   Settings: TELESRV_... in .env'
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# `exec`, so that the server takes the place of make's shell: SIGTERM to make then reaches the server itself, and
# make waits for it to end.
run: $(VENV)/.run ## start the server; Ctrl-C or SIGTERM stops it
	@if [ -z "$${TELESRV_DEV_AUTH_CODE+set}" ] && ! grep -qs '^ *TELESRV_DEV_AUTH_CODE *=' .env; then \
		export TELESRV_DEV_AUTH_CODE=12345; \
		echo 'warning: every account can log in with the code 12345; set TELESRV_DEV_AUTH_CODE to change it,' >&2; \
		echo 'warning: or to nothing to switch it off. Never run a public server with it.' >&2; \
	fi; \
	exec $(VENV)/bin/telesrv

migrate: $(VENV)/.run ## bring the database schema up to date without starting the server
	@exec $(PY) -m telesrv.platform

# These start servers and wait for them and their clients, most of the time; the others keep one core busy. Side by
# side they take little longer than either.
SERVER_TESTS := $(addprefix tests/,admin clients faults gateway model processes)

test: $(VENV)/.dev clients ## every test but the graphical ones, third-party clients included
ifeq ($(ARGS),)
	@echo 'Two halves at once: the tests that start servers, here; what the others say follows at the end.'
	@$(PY) -m pytest -q $(addprefix --ignore=,$(SERVER_TESTS)) >$(VENV)/other-tests.log 2>&1 & others=$$!; \
	$(PY) -m pytest -q $(SERVER_TESTS); here=$$?; \
	wait $$others; there=$$?; cat $(VENV)/other-tests.log; exit $$((here + there))
else
	$(PY) -m pytest $(ARGS)
endif

test-clients: $(VENV)/.dev clients ## only the tests with third-party clients as peers
	$(PY) -m pytest tests/clients $(ARGS)

test-tdesktop: $(VENV)/.dev ## a stock Telegram Desktop under Xvfb, cut off from the network
	$(PY) tests/support/isolate.py $(PY) -m pytest -m tdesktop tests/tdesktop $(ARGS)

test-processes: $(VENV)/.dev ## only the tests of many workers: killed, hung, cut off and replaced under traffic
	$(PY) -m pytest tests/processes $(ARGS)

soak: $(VENV)/.dev ## break everything under load, for MINUTES=30; SEED=... repeats a run
	$(PY) -m loadtest soak --minutes $(or $(MINUTES),30) --seed $(or $(SEED),0) $(ARGS)

load: $(VENV)/.dev ## the load harness; settings in TELESRV_LOAD_...
	$(PY) -m loadtest $(ARGS)

fuzz: $(VENV)/.dev ## the property tests again, with many more examples
	$(PY) -m pytest -m hypothesis --hypothesis-profile=fuzz $(ARGS)

fmt: $(VENV)/.dev ## put the code in order
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

check: $(VENV)/.dev check-gen ## read-only: lint, format, types, generated code
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

check-gen: $(VENV)/.dev ## is the generated code what the facts say?
	$(PY) -m tools.gen --check

gen: $(VENV)/.dev ## generate the TL classes from the committed facts
	$(PY) -m tools.gen

countries: $(VENV)/.dev ## write the list of countries and calling codes anew (network)
	$(PY) -m pip install --quiet --disable-pip-version-check --upgrade --target build/countries '$(PHONENUMBERS)'
	PYTHONPATH=build/countries $(PY) -m tools.countries

facts: $(VENV)/.dev ## collect the facts anew from the package registries (network)
	$(PY) -m tools.facts

# Environments, each made on first use and again when what it is made from changes.

clients: $(CLIENTS)/kurigram/.made $(CLIENTS)/pyrogram/.made

$(VENV)/bin/python:
	@test -n '$(PYTHON)' || { echo 'Python 3.11 or later with its venv module is needed; name it: make PYTHON=...' >&2; exit 1; }
	@echo 'Making $(VENV) and installing what the server needs; once, about a minute.'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: pyproject.toml | $(VENV)/bin/python
	$(PY) -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	$(PY) -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(VENV)/.run

# Both install a package named pyrogram, so each gets an environment of its own. Their ciphers in C have no wheel for
# every Python; without them they are slower, which these tests do not mind.
$(CLIENTS)/kurigram/.made: Makefile | $(VENV)/bin/python
	$(PY) -m venv $(CLIENTS)/kurigram
	$(CLIENTS)/kurigram/bin/python -m pip install --quiet --disable-pip-version-check '$(KURIGRAM)'
	@touch $@

$(CLIENTS)/pyrogram/.made: Makefile | $(VENV)/bin/python
	$(PY) -m venv $(CLIENTS)/pyrogram
	$(CLIENTS)/pyrogram/bin/python -m pip install --quiet --disable-pip-version-check '$(PYROGRAM)'
	@touch $@
