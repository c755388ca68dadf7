# The commands of the project. `make run` and `make test` work on a bare machine: `tools/setup` installs what is missing.
.PHONY: help setup build run test test-cpp test-sanitize test-python test-install test-package test-wheel test-bare wheel docs bench cpu-training gpu-test gpu-bench gpu-contest gpu-expert-parallel gpu-generate gpu-gradients gpu-host gpu-moe gpu-packed gpu-pairs gpu-peers gpu-quantisers gpu-share gpu-skew gpu-steps gpu-timeline gpu-training gpu-wheel lint format clean

cpus := $(shell nproc)
python := build/venv/bin/python
program := build/release/src/cli/tilewright
# Whether the tests have torch, yes or no: make test torch=no
torch := yes
# The card that records name: make gpu-gradients card=h100
card := h200
gpu-record := --json benchmarks/results/$(card).jsonl

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-19s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup:  ## install what building and testing need
	@tools/setup

.PHONY: setup-torch
setup-torch:
	@tools/setup torch=$(torch)

# Compiled kernels are kept there, by their content; unset: in build/kernels.
kernel-cache := $(if $(TILEWRIGHT_KERNEL_CACHE),-D TILEWRIGHT_KERNEL_CACHE=$(TILEWRIGHT_KERNEL_CACHE))

build: setup  ## the library, the program, the tests
ifndef built
	cmake --preset release $(kernel-cache)
	cmake --build --preset release -j $(cpus)
endif

# Where there is no GPU and no build yet, `make run` builds no kernels: they are compiled on first use.
gpu := $(wildcard /dev/nvidia[0-9]* /dev/dxg)
quick = $(if $(gpu)$(shell grep -s '^TILEWRIGHT_QUICK_RUN:.*=OFF' build/release/CMakeCache.txt),OFF,ON)

run:  ## the main job: build, check every operation and recipe, then run a real model with each recipe
	@tools/setup build
	@tools/step configure 'finds the compiler and the libraries' cmake --preset release -D TILEWRIGHT_QUICK_RUN=$(quick)
	@tools/step build 'the library and the program, on $(cpus) cores' cmake --build --preset release -j $(cpus) --target tilewright_program
	@tools/step package 'the Python package, in build/venv' tools/python-package
	@echo 'verify: each operation and recipe against its error bound (all cases: $(program) verify)'
	@$(program) verify --quick
	@echo 'model: embeddings of 216 sentences by a real model, with each recipe'
	@$(python) examples/minilm/minilm.py

# torch is downloaded while the library is built; torch=no may make the environment again, so it comes first.
# built, packaged: two of CMake that write one folder at a time fail now and then.
test: $(if $(filter yes,$(torch)),setup,setup-torch)  ## everything that must pass; torch=no: without torch and the tests that need it
	$(MAKE) --no-print-directory --jobs=2 setup-torch test-cpp
	$(MAKE) --no-print-directory --jobs=3 --output-sync=line built=yes lint-then-sanitize test-packages

# Three lists of jobs, each one after another: those of the second and third are on one core, and the first takes the rest.
.PHONY: lint-then-sanitize build-sanitize test-packages run-pytest wheel-and-docs
lint-then-sanitize: build
	$(MAKE) --no-print-directory lint
	$(MAKE) --no-print-directory test-sanitize
test-packages: build
	$(MAKE) --no-print-directory python-package
	$(MAKE) --no-print-directory packaged=yes run-pytest wheel-and-docs
wheel-and-docs:
	$(MAKE) --no-print-directory test-install
	$(MAKE) --no-print-directory test-wheel
	$(MAKE) --no-print-directory docs

test-cpp: build  ## the C++ suite
	ctest --preset release -j $(cpus)

build-sanitize: setup
	cmake --preset sanitize $(kernel-cache)
	cmake --build --preset sanitize -j $(cpus)

test-sanitize: build-sanitize  ## the C++ suite under AddressSanitizer and UndefinedBehaviorSanitizer, and random calls and files
	ctest --preset sanitize -j $(cpus)

test-python: setup-torch python-package  ## the Python package and the examples (tests/lint is part of `make lint`); torch=no: as test
	$(MAKE) --no-print-directory run-pytest
run-pytest:
	$(python) -m pytest -q -rs tests --ignore=tests/lint --ignore=tests/wheel

test-package: setup-torch  ## the Python package compiled as `pip install` does, all of it, and its tests
	tools/python-package --whole
	$(python) -m pytest -q tests/python

wheel:  ## wheels for the Pythons of this machine, into build/wheels; builds no tests
ifndef built
	@tools/setup build
	@tools/step configure 'finds the compiler and the libraries' cmake --preset release $(kernel-cache)
	@tools/step build 'the library, its kernels and the program, on $(cpus) cores' cmake --build --preset release -j $(cpus) --target tilewright_program
endif
	@tools/wheel

test-wheel: wheel  ## what the wheels need of a system, and that they work where nothing else is installed
	$(python) -m pytest -q tests/wheel

docs: python-package  ## the documentation site, with the reference of both APIs, into build/site; any warning is an error
	tools/api-docs

test-install: build  ## a consumer project built from the installed library
	tests/install/run

test-bare:  ## `make run`, `make test` and `make test-package` in bare systems, as root and as a user with sudo (needs root, takes hours)
	tools/test-bare

.PHONY: python-package
python-package: setup
ifndef packaged
	tools/python-package
endif

bench: build  ## timings: the CPU backend and OpenBLAS and its targets, the GPU's arithmetic, a model's layers
	build/release/benchmarks/cpu_gemm
	build/release/benchmarks/cpu_bit_exact
	$(program) bench --suite qwen3-235b --peers

gpu-test: setup  ## all tests that need a Hopper GPU, then small shapes under compute-sanitizer
	cmake --preset release -D TILEWRIGHT_GPU_TESTS=ON
	cmake --build --preset release -j $(cpus)
	tests/gpu/run_all build/release

gpu-bench: build gpu-gradients gpu-packed gpu-quantisers  ## on a Hopper GPU: the record's shapes and recipes and cuBLASLt's, appended to benchmarks/results
	for suite in peers peers-ragged; do for layout in m k; do \
	  $(program) bench --backend hopper --suite $$suite --peers --recipe 1d2d --sa-layout $$layout $(gpu-record) || exit; \
	  $(program) bench --backend hopper --suite $$suite --peers --op m_grouped_masked --recipe 1d2d --sa-layout $$layout $(gpu-record) || exit; \
	  done; \
	  $(program) bench --backend hopper --suite $$suite --peers --op m_grouped_offsets --recipe 1d2d --sa-layout k $(gpu-record) || exit; \
	done
	for nk in "7168 --k 16384" "7168 --k 2048" "4096 --k 7168"; do \
	  $(program) bench --backend hopper --m 4096 --n $$nk --sustained --peers --recipe 1d2d $(gpu-record) || exit; \
	done
	$(program) bench --backend hopper --suite peers --peers --recipe 1d1d $(gpu-record)
	$(program) bench --backend hopper --suite peers --peers --recipe tensor,row $(gpu-record)
	$(program) bench --backend hopper --suite peers --peers --recipe tensor,row --unpromoted $(gpu-record)
	$(program) bench --backend hopper --suite peers --peers --recipe 1d2d --flush dirty $(gpu-record)
	$(program) bench --backend hopper --suite peers --peers --op m_grouped_indices --recipe 1d2d --sa-layout k $(gpu-record)
	for suite in qwen3-235b llama-70b; do \
	  $(program) bench --backend hopper --suite $$suite --m 1,16,48 --peers --recipe 1d2d $(gpu-record) || exit; \
	done

gpu-contest: build python-package  ## our calls and every peer that can be imported, in turns. A part: contest="--only few,1024". PYTHON: as gpu-peers
	$${PYTHON:-$(python)} benchmarks/contest.py $(contest) --json benchmarks/results/$(card)_contest.jsonl || [ $$? -eq 1 ]  # 1: a target is missed or cannot be judged

training := --json benchmarks/results/$(card)_training.jsonl
accumulate := --output f32 --accumulate $(training)
experts := $(program) bench --backend hopper --op m_grouped_offsets --groups 8 --m 2048 --recipe tensor,row

gpu-gradients: build  ## D of f32 += A B, dense and in groups of k; forward and dgrad of three models' experts
	$(program) bench --backend hopper --m 4096 --n 4096 --k 7168 --peers --recipe tensor $(training)
	for s in "2112 --n 4096 --k 7168" "576 --n 4096 --k 7168" "24576 --n 4096 --k 1536" "32768 --n 4096 --k 512" \
	  "7168 --n 4096 --k 16384" "4096 --n 4096 --k 7168" "7168 --n 4096 --k 2048"; do \
	  $(program) bench --backend hopper --m $$s --recipe 1d1d $(accumulate) || exit; \
	done
	for s in "4 --m 4096 --n 7168 --k 8192" "4 --m 7168 --n 2048 --k 8192" "8 --m 4096 --n 7168 --k 4096" \
	  "8 --m 7168 --n 2048 --k 4096" "8 --m 1536 --n 4096 --k 1000" "32 --m 1536 --n 4096 --k 500" "8 --m 5760 --n 2880 --k 1000"; do \
	  $(program) bench --backend hopper --op k_grouped_flat --groups $$s --recipe 1d1d,row $(accumulate) || exit; \
	  $(program) bench --backend hopper --op k_grouped_aligned_offsets --groups $$s --recipe row,1x128:128x128 $(accumulate) || exit; \
	  $(program) bench --backend hopper --op k_grouped_aligned_offsets --groups $$s --recipe row $(training) || exit; \
	done
	for nk in "4096 7168" "7168 2048" "3072 4096" "4096 1536" "5760 2880" "2880 2880"; do set -- $$nk; \
	  $(experts) --n $$1 --k $$2 $(training) || exit; \
	  $(experts) --n $$2 --k $$1 --layout nn $(training) || exit; \
	done

gpu-peers: build python-package  ## products of a training step next to torch's and DeepGEMM's, in turns; PYTHON: one that has torch (and DeepGEMM) and the package
	$${PYTHON:-$(python)} benchmarks/training_peers.py --random 6 --seed 26 --json benchmarks/results/training_peers.jsonl || [ $$? -eq 1 ]  # 1: a target is missed

gpu-steps: build python-package  ## training steps of single layers and of torch's bf16 layers, and the host's time; PYTHON: one that has torch and the package
	$${PYTHON:-$(python)} benchmarks/training_step.py --json benchmarks/results/$(card)_steps.jsonl || [ $$? -eq 1 ]  # 1: a target is missed

gpu-moe: build python-package  ## layers of experts, Triton's and torch's; PYTHON: one that has torch, Triton and the package
	$${PYTHON:-$(python)} benchmarks/moe_layer.py --json benchmarks/results/$(card)_moe.jsonl
	$${PYTHON:-$(python)} benchmarks/moe_layer.py --skew --tokens 8,512,4096 --json benchmarks/results/$(card)_moe.jsonl
	$${PYTHON:-$(python)} benchmarks/moe_layer.py --only-random --random 6 --tokens 16,300,3000 --json benchmarks/results/$(card)_moe.jsonl

gpu-generate: build python-package  ## models of transformers with our experts and its own; PYTHON: one that has torch, transformers and the package
	$${PYTHON:-$(python)} benchmarks/generate.py --json benchmarks/results/$(card)_generate.jsonl

gpu-expert-parallel: build python-package  ## layers of experts over two GPUs of a host, and their training steps; PYTHON: one that has torch and the package
	$${PYTHON:-$(python)} -m torch.distributed.run --nproc-per-node 2 benchmarks/expert_parallel.py --json benchmarks/results/$(card)_expert_parallel.jsonl
	$${PYTHON:-$(python)} -m torch.distributed.run --nproc-per-node 2 benchmarks/expert_training.py --json benchmarks/results/$(card)_expert_parallel.jsonl

gpu-share: build python-package  ## the share of quantizers in the GPU time of a training step; PYTHON: one that has torch and the package
	$${PYTHON:-$(python)} benchmarks/training_share.py --json benchmarks/results/$(card)_share.jsonl || [ $$? -eq 1 ]  # 1: a target is missed

fp4 := --json benchmarks/results/$(card)_fp4.jsonl
packed := --recipe 1x128:mxfp4,row:mxfp4 $(fp4)
packed-bf16 := --recipe bf16:mxfp4,bf16:nvfp4 $(fp4)
masked := $(program) bench --backend hopper --op m_grouped_masked --max-m 256
exact-ends := $(program) bench --backend hopper --op m_grouped_offsets

gpu-packed: build  ## packed MXFP4 weights, with wide rows too, and not packed; FP4 weights for bf16; MXFP8 and FP4 activations
	for s in "32 --m 20 --n 4096 --k 7168" "32 --m 20 --n 7168 --k 2048" "8 --m 16 --n 4096 --k 7168" "8 --m 16 --n 7168 --k 2048" \
	  "32 --m 64 --n 4096 --k 7168" "32 --m 20 --n 4096 --k 7168 --wide-rows 100" "32 --m 20 --n 4096 --k 7168 --wide-rows 1" \
	  "32 --m 16 --n 4096 --k 4096" "32 --m 16 --n 4096 --k 2048" "32 --m 20 --n 4096 --k 7168 --unpacked" \
	  "32 --m 20 --n 7168 --k 2048 --unpacked" "8 --m 16 --n 4096 --k 7168 --unpacked" "8 --m 16 --n 7168 --k 2048 --unpacked"; do \
	  $(masked) --groups $$s $(packed) || exit; \
	done
	for s in "1,16,32,64" "16 --wide-rows 100" "16 --wide-rows 1"; do \
	  $(program) bench --backend hopper --m $$s --n 7168 --k 16384 $(packed) || exit; \
	done
	for s in "32 --m 20 --n 4096 --k 7168" "32 --m 20 --n 7168 --k 2048" "8 --m 16 --n 4096 --k 7168" "8 --m 16 --n 7168 --k 2048" \
	  "128 --m 4 --n 5760 --k 2880" "128 --m 4 --n 2880 --k 2880" "32 --m 16 --n 4096 --k 4096" "32 --m 16 --n 4096 --k 2048"; do \
	  $(masked) --groups $$s $(packed-bf16) || exit; \
	done
	$(program) bench --backend hopper --m 1,16,32 --n 7168 --k 16384 $(packed-bf16)
	for s in "4 --m 8192 --n 4096 --k 7168" "4 --m 8192 --n 7168 --k 2048" "32 --m 256 --n 4096 --k 7168" "32 --m 256 --n 7168 --k 2048"; do \
	  $(exact-ends) --sa-layout k --groups $$s $(packed) || exit; \
	  $(exact-ends) --groups $$s $(packed-bf16) || exit; \
	done
	$(masked) --groups 32 --m 20 --n 4096 --k 7168 --recipe mxfp8:mxfp4,mxfp4:mxfp4,nvfp4:nvfp4 $(fp4)
	$(masked) --groups 32 --m 20 --n 7168 --k 2048 --recipe mxfp8:mxfp4 $(fp4)
	for nk in "4096 --k 7168" "7168 --k 2048"; do \
	  $(exact-ends) --groups 4 --m 8192 --n $$nk --recipe mxfp8:mxfp8,mxfp8:mxfp4 $(fp4) || exit; \
	done

pairs := --recipe 1x128:128x128,1x128:row,1x128:e4m3,128x128:128x128,128x128:e4m3 --json benchmarks/results/$(card)_pairs.jsonl
into-f32 := $(program) bench --backend hopper --op k_grouped --output f32 --accumulate

gpu-pairs: build  ## pairs of scales whose kernels compile on first use, and 1x128:128x128
	for nk in "4096 --k 7168" "7168 --k 2048"; do \
	  $(program) bench --backend hopper --m 64,1024,4096 --n $$nk $(pairs) || exit; \
	done
	for rows in 64 2048; do $(exact-ends) --groups 8 --m $$rows --n 4096 --k 7168 $(pairs) || exit; done
	$(into-f32) --groups 8 --m 4096 --n 7168 --k 4096 $(pairs)
	$(into-f32) --groups 32 --m 1536 --n 4096 --k 500 $(pairs)

gpu-quantisers: build  ## the quantisers of a training step, and packing
	build/release/benchmarks/quantize_gpu 32768 7168 8 --json benchmarks/results/$(card)_quantisers.jsonl

training-record := --json benchmarks/results/moe_train.jsonl

cpu-training: python-package  ## docs/moe_training.md's runs of examples/moe_train: seeds of bf16, each recipe, planted faults; PYTHON: one that has torch and the package
	$${PYTHON:-$(python)} benchmarks/training_runs.py $(training-record)

gpu-training:  ## the same on a Hopper GPU, with the large model, all runs at once; PYTHON: as cpu-training
	$${PYTHON:-$(python)} benchmarks/training_runs.py --device cuda $(training-record)

skew := --recipe tensor,1d2d --json benchmarks/results/$(card)_skew.jsonl

gpu-skew: build  ## groups that share rows, or k, evenly and with one hot group: forward, dgrad, wgrad
	for hot in 1 30 100 1; do \
	  $(program) bench --backend hopper --op m_grouped_offsets --groups 8 --m 2048 --n 7168 --k 2048 --hot $$hot --sa-layout k $(skew) || exit; \
	  $(program) bench --backend hopper --op m_grouped_offsets --groups 8 --m 2048 --n 2048 --k 7168 --layout nn --hot $$hot --sa-layout k $(skew) || exit; \
	  $(program) bench --backend hopper --op k_grouped --groups 8 --m 7168 --n 2048 --k 2048 --hot $$hot $(skew) || exit; \
	done

host-record := --json benchmarks/results/$(card)_host.jsonl

gpu-host: build python-package  ## the host's time of a call, on a machine that does nothing else; PYTHON: one that has torch and the package
	for run in 1 2 3; do \
	  build/release/benchmarks/host_overhead $(host-record) || [ $$? -eq 1 ] || exit; \
	  $${PYTHON:-$(python)} benchmarks/host_overhead.py $(host-record) || [ $$? -eq 1 ] || exit; \
	done  # 1: a target is missed

gpu-timeline: build  ## one block of a kernel clock by clock; PYTHON: one that has matplotlib, for the pictures of docs/one_kernel.md
	build/release/benchmarks/kernel_timeline benchmarks/results/h200_timeline.jsonl
	$${PYTHON:-$(python)} benchmarks/plot_timeline.py

gpu-wheel:  ## on a Hopper GPU: a wheel of build/wheels, carried there; PYTHON: 3.12 or later with torch; no network
	$${PYTHON:-python3.12} tests/wheel/on_gpu.py build/wheels/tilewright-*-cp312-abi3-*.whl

lint: build  ## format, clang-tidy, layering, documentation
	tools/lint

format: setup  ## apply clang-format
	tools/lint --fix

clean:  ## remove all that was built
	rm -rf build
