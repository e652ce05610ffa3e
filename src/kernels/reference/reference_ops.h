// The oracle: every operation of kernels/ops.h in plain loops, to be read next to model.md.
//
// Between two rounding points of spec: model.md §3 everything is double, each sum in one fixed order: features (k), positions,
// slots, experts and streams ascending, except that a dot product of attention or indexer adds eight interleaved partial sums
// (dot.h). No order depends on the batch or on the threads. Scratch memory is allocated per call; `workspace` is not used.
#pragma once

#include <memory>

#include "kernels/ops.h"

namespace deepinfer::kernels {

std::unique_ptr<const Ops> MakeReferenceOps();

}  // namespace deepinfer::kernels
