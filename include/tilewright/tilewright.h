// Tilewright: low-precision matrix multiplication, dense and grouped, for Hopper GPUs and any CPU.
// This header is the table of contents, in reading order.
#pragma once

#include <tilewright/error.h>            // what every call throws
#include <tilewright/formats.h>          // e4m3, e5m2, e2m1, ...
#include <tilewright/packed.h>           // weights in the register order of a tensor core
#include <tilewright/plan.h>             // how a GPU would compute it, how long that takes, and why
#include <tilewright/problem.h>          // a call, described; validate
#include <tilewright/quantize.h>         // quantize real matrices, and back
#include <tilewright/quantize_tokens.h>  // the same for the operands of a training step
#include <tilewright/recipe.h>           // which formats and scales go together
#include <tilewright/run.h>              // compute
#include <tilewright/tensor.h>           // a strided view of memory
