// Engram table rows from token ids: integer arithmetic only (spec: model.md §10.3).
#pragma once

#include <cstdint>
#include <span>

#include "checkpoint/engram_constants.h"

namespace deepinfer::model {

/// Compressed id of an image position: it and everything behind it takes part in no n-gram.
inline constexpr int32_t kDeadToken = -1;

/// Rows of position `position` of one Engram layer. `compressed` holds the compressed ids of positions 0 .. position at least;
/// `pad` is the compressed pad id; `out` gets one row id per column, order major, head minor.
void EngramRows(const EngramLayerConstants& layer, int num_heads, int max_ngram_size,
                std::span<const int32_t> compressed, int64_t position, int32_t pad, int64_t* out);

}  // namespace deepinfer::model
