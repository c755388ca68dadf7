// Tilewright: low-precision matrix multiplication, dense and grouped, for Hopper GPUs and any CPU.
// This header is the table of contents, in reading order.
#pragma once

#include <tilewright/error.h>            // The exceptions of all calls.
#include <tilewright/expert_group.h>     // A layer of experts over ranks.
#include <tilewright/formats.h>          // Formats: e4m3, e5m2, e2m1, ...
#include <tilewright/linear.h>           // A linear layer: forward and backward in one call each.
#include <tilewright/moe.h>              // A layer of experts in one call.
#include <tilewright/packed.h>           // Weights in the register order of a tensor core.
#include <tilewright/peer_exchange.h>    // The exchanges of training over ranks.
#include <tilewright/plan.h>             // How a GPU would compute it, how long that takes, and why.
#include <tilewright/problem.h>          // A call, described; `validate`.
#include <tilewright/quantize.h>         // Quantize real matrices, and back.
#include <tilewright/quantize_tokens.h>  // The same for the operands of a training step.
#include <tilewright/ranks.h>            // The ranks: threads, NCCL or your functions.
#include <tilewright/recipe.h>           // Which formats and scales go together.
#include <tilewright/run.h>              // Run a call.
#include <tilewright/tensor.h>           // A strided view of memory.
