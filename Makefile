# Every command a developer needs. Asks for GNU make 3.81, Python 3.11, pip and git; everything else goes into .venv.

.PHONY: help demo test lint types unit sweep docs captures pictures wheel clean FORCE
.NOTPARALLEL:

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s  %s\n", $$1, $$2 }' Makefile

# The first Python that is new enough. A version manager's shim may exist and not run, so each is asked, not looked up.
PYTHON ?= $(shell for python in python3.13 python3.12 python3.11 python3; do \
	if $$python -c '$(NEW_ENOUGH)' >/dev/null 2>&1; then echo $$python; break; fi; done)
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))

# One environment, two stamps: the demo needs the base dependencies and the extra report. Each stamp holds its directory.
BASE := .venv/base.stamp
DEV := .venv/dev.stamp
PINS := pyproject.toml constraints.txt Makefile
RUN := .venv/bin/python -m
PYTEST := $(RUN) pytest -n auto --dist loadgroup

# Dates can't tell that an environment was moved, lost its Python, or that its last installation did not end.
ifneq ($(shell test -x .venv/bin/python && test ! -e .venv/incomplete && cat .venv/*.stamp 2>/dev/null | sort -u),$(CURDIR))
$(BASE) $(DEV): FORCE
endif

# What a client of Spark Connect needs besides. It stands apart: most users have no pandas, so most tests must not.
CONNECT := googleapis-common-protos grpcio grpcio-status pandas protobuf pytz

# An environment that somebody else made is kept if it works. What is broken, moved or half installed is made anew.
# PIP_CONSTRAINT (pip before 25.3) and PIP_BUILD_CONSTRAINT (since) hold the build back end to the same pins.
define install
@set -e; \
places="$$(cat .venv/*.stamp 2>/dev/null | sort -u)"; \
if test -e .venv/incomplete \
	|| test "$${places:-$(CURDIR)}" != "$(CURDIR)" \
	|| ! .venv/bin/python -c 'import pip; $(NEW_ENOUGH)' >/dev/null 2>&1; \
then \
	python="$(PYTHON)"; \
	if test -z "$$python"; then \
		echo "error: no Python 3.11 or newer found; install one, or name it: make PYTHON=/path/to/python3" >&2; exit 1; \
	fi; \
	if ! "$$python" -c '$(NEW_ENOUGH)' >/dev/null 2>&1; then \
		echo "error: PYTHON=$$python is not a Python 3.11 or newer" >&2; exit 1; \
	fi; \
	if ! "$$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then \
		echo "error: $$python has no venv module; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; \
	fi; \
	rm -rf .venv; mkdir .venv; : > .venv/incomplete; \
	"$$python" -m venv .venv; \
fi; \
: > .venv/incomplete; \
PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt \
	$(RUN) pip install -qq -c constraints.txt -e '$(WANTED)'; \
rm .venv/incomplete
endef

$(BASE): WANTED = .[report]
$(BASE): $(PINS)
	$(install)
	@echo "$(CURDIR)" > $@

$(DEV): WANTED = .[dev,generate,report,spark]
$(DEV): $(PINS)
	$(install)
	@PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 $(RUN) pip install -qq --no-deps --upgrade -c constraints.txt \
		--target .venv/connect $(CONNECT)
	@echo "$(CURDIR)" | tee $(BASE) > $@

BROKEN := captures/broken/FLC-02.pcapng

demo: $(BASE) ## dissect a recorded conversation with a Couchbase server, and check a broken one
	@.venv/bin/uprscope dissect captures/25_stream_id_v705.pcap --limit 40
	@echo; .venv/bin/uprscope check $(BROKEN) --limit 1 --no-pager || test $$? -eq 1
	@mkdir -p build/demo
	@.venv/bin/uprscope report $(BROKEN) -o build/demo/report.html
	@.venv/bin/uprscope plot $(BROKEN) flow -o build/demo/flow.png
	@.venv/bin/uprscope plot captures/02_flow_control.pcap seqno --connection 1 -o build/demo/seqno.png
	@echo; printf '%s\n' 'report    build/demo/report.html' 'pictures  build/demo/flow.png' '          build/demo/seqno.png'

# Every check runs, whatever the one before it said, and pytest runs last: its closing line ends the output.
test: $(DEV) ## run every check: ruff, mypy, pytest (tshark and chromium are installed where that is allowed)
	@tests/support/ensure-tshark
	@$(RUN) tests.support.wiresharks
	@tests/support/ensure-chromium
	@failed=; \
	$(RUN) ruff check || failed="$$failed ruff-check"; \
	$(RUN) ruff format --check || failed="$$failed ruff-format"; \
	$(RUN) mypy || failed="$$failed mypy"; \
	test -z "$$failed" || echo "error: failed before pytest:$$failed" >&2; \
	$(PYTEST) || failed="$$failed pytest"; \
	test -z "$$failed"

lint: $(DEV) ## check style and formatting with ruff
	@failed=; \
	$(RUN) ruff check || failed=1; \
	$(RUN) ruff format --check || failed=1; \
	test -z "$$failed"

types: $(DEV) ## check types with mypy
	@$(RUN) mypy

unit: $(DEV) ## run pytest alone; ARGS='-k snapshot' goes to it
	@$(PYTEST) $(ARGS)

sweep: $(DEV) ## run pytest with every search at full depth (long); ARGS as for unit
	@UPRSCOPE_SWEEP=full $(PYTEST) --timeout 7200 $(ARGS)

docs: $(DEV) ## write the files derived from the declarations of protocol and rules anew
	@.venv/bin/python -m dissector.codegen
	@.venv/bin/python -m analysis.codegen
	@.venv/bin/python -m uprscope.man_pages

captures: $(DEV) ## make the synthetic captures and their index anew
	@$(RUN) uprscope.make_captures
	@.venv/bin/python -m dissector.codegen
	@.venv/bin/python -m analysis.codegen

pictures: $(DEV) ## make the pictures in docs/pictures anew
	@mkdir -p build/pictures docs/pictures
	@.venv/bin/uprscope generate bulk --frames 30000 --vbuckets 16 -o build/pictures/bulk.pcap
	@.venv/bin/uprscope plot build/pictures/bulk.pcap seqno --connection 1 -o docs/pictures/seqno.png
	@.venv/bin/uprscope plot $(BROKEN) flow -o docs/pictures/flow.png

wheel: $(BASE) ## make dist/uprscope-VERSION-py3-none-any.whl, to install elsewhere
	@rm -rf dist
	@PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt \
		$(RUN) pip wheel -qq --no-deps -w dist .
	@ls dist/*.whl

clean: ## remove .venv, caches and build products
	@rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist *.egg-info
	@find . -name .git -prune -o -type d -name __pycache__ -prune -exec rm -rf {} +
