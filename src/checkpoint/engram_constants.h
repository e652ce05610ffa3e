// Hash constants of the Engram tables: bucket primes, row offsets and multipliers (spec: model.md §10.2, checkpoint.md §9.2-9.3).
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "checkpoint/config.h"

namespace deepinfer {

/// Constants of one Engram layer. Column c = (order - 2) * num_heads + head, for order = 2 … max_ngram_size.
struct EngramLayerConstants {
  int layer_id = 0;
  std::vector<int64_t> primes;       // [columns] bucket sizes
  std::vector<int64_t> offsets;      // [columns] first row of the bucket = sum of the primes before it
  std::vector<int64_t> multipliers;  // [max_ngram_size] odd, one per look-back distance 0 …
  int64_t num_rows = 0;              // sum of all primes
};

struct EngramConstants {
  int num_heads = 0;
  int max_ngram_size = 0;
  std::vector<EngramLayerConstants> layers;  // in the order of engram_layer_ids

  /// Prime of (index into layers, order 2 … max_ngram_size, head).
  int64_t prime(int layer_index, int order, int head) const {
    return layers[static_cast<size_t>(layer_index)]
        .primes[static_cast<size_t>((order - 2) * num_heads + head)];
  }
};

/// Computes the constants from engram_layer_ids, engram_max_ngram_size, engram_n_heads, engram_vocab_size and
/// engram_compressed_vocab_size. Errors: kDataLoss when one of them is out of its range (those of Validate).
Result<EngramConstants> ComputeEngramConstants(const ModelConfig& config);

/// NumPy's default bit generator: SeedSequence(seed) feeding PCG64 XSL-RR 128/64, and its bounded 64-bit draw.
class NumpyPcg64 {
 public:
  explicit NumpyPcg64(uint64_t seed);
  /// The next 64 random bits.
  uint64_t Next();
  /// Uniform in [0, bound), bound > 2^32 (NumPy draws 32 bits below that, which this does not reproduce).
  uint64_t NextBounded(uint64_t bound);

 private:
  void Step();
  unsigned __int128 state_ = 0;
  unsigned __int128 increment_ = 0;
};

}  // namespace deepinfer
