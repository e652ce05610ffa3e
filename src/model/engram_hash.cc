#include "model/engram_hash.h"

namespace deepinfer::model {

void EngramRows(const EngramLayerConstants& layer, int num_heads, int max_ngram_size,
                std::span<const int32_t> compressed, int64_t position, int32_t pad, int64_t* out) {
  bool blocked = false;
  int64_t hash = 0;
  for (int distance = 0; distance < max_ngram_size; ++distance) {
    const int64_t at = position - distance;
    blocked = blocked || at < 0 || compressed[static_cast<size_t>(at)] == kDeadToken;
    const int64_t token = blocked ? pad : compressed[static_cast<size_t>(at)];
    const int64_t product = token * layer.multipliers[static_cast<size_t>(distance)];
    if (distance == 0) {
      hash = product;
      continue;
    }
    hash ^= product;
    for (int head = 0; head < num_heads; ++head) {
      const size_t column = static_cast<size_t>((distance - 1) * num_heads + head);
      *out++ = hash % layer.primes[column] + layer.offsets[column];
    }
  }
}

}  // namespace deepinfer::model
