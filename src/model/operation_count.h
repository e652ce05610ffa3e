// How much a prefill computes: the formula of the plan, and the counters that a run fills. Both count the same things, so that a test
// can hold one against the other (spec: model.md §12.2).
#pragma once

#include <cstdint>

#include "checkpoint/config.h"
#include "model/layer_plan.h"

namespace deepinfer::model {

/// Executed work by part. A layer "runs" a row when it computes queries, attention and FFN for it.
struct OperationCounts {
  int64_t encoder_rows = 0;     // rows run, summed over the layers before decoder_start
  int64_t decoder_rows = 0;     // the same from decoder_start on
  int64_t window_rows = 0;      // window KV rows made, all layers
  int64_t source_rows = 0;      // rows fed to compressors, all sources
  int64_t gated_rows = 0;       // those of them with a gate projection (ratio above 1)
  int64_t entries = 0;          // compressed entries made, all sources
  int64_t indexer_rows = 0;     // index queries made, all index sources
  int64_t score_columns = 0;    // index scores computed: visible entries, or those inside the candidate pool
  int64_t attention_slots = 0;  // key-list slots attended, all layers
  int64_t engram_rows = 0;      // rows through Engram modules
  int64_t logits_rows = 0;
  friend bool operator==(const OperationCounts&, const OperationCounts&) = default;
};

/// Work of one cold prefill of `prompt_length` rows with the logits of the last row. Does not depend on chunking.
OperationCounts CountPrefill(const ModelConfig& config, PrefillMode mode, int64_t prompt_length,
                             int64_t keep_tokens = 0);

/// Multiply-adds of the counted work in this configuration, products of weights and attention alike.
double MultiplyAdds(const ModelConfig& config, const OperationCounts& counts);

/// Score columns computed for a row that sees `visible` entries: none when all of them are selected anyway.
int64_t ScoreColumns(const ModelConfig& config, bool uses_candidates, int64_t visible);

}  // namespace deepinfer::model
