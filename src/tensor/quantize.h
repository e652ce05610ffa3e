// Row quantisers and their inverses (spec: model.md §4.3, §4.4, §5.3; checkpoint.md §5). Pure fp32: bit-equal on every back end.
// A scale group never spans rows. `d` is a multiple of the group.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace deepinfer {

inline constexpr int kQuantGroup = 32;   // activations, window KV, index keys, weight blocks
inline constexpr int kMainKvGroup = 16;  // main compressed KV

/// fp8_act: x bf16 [d] -> E4M3 codes [d], E8M0 scales [d/32].
void QuantizeFp8(const Bf16* x, int64_t d, uint8_t* codes, uint8_t* scales);
/// Index form: x bf16 [d] -> packed E2M1 [d/2] (even element in the low nibble), E8M0 scales [d/32].
void QuantizeFp4Index(const Bf16* x, int64_t d, uint8_t* codes, uint8_t* scales);
/// Main-KV form: x bf16 [d] -> packed E2M1 [d/2], E4M3 scales [d/16].
void QuantizeFp4Main(const Bf16* x, int64_t d, uint8_t* codes, uint8_t* scales);

/// code * scale as bf16; exact (spec: model.md §11).
void DequantizeFp8(const uint8_t* codes, const uint8_t* scales, int64_t d, Bf16* out);
void DequantizeFp4Index(const uint8_t* codes, const uint8_t* scales, int64_t d, Bf16* out);
void DequantizeFp4Main(const uint8_t* codes, const uint8_t* scales, int64_t d, Bf16* out);

}  // namespace deepinfer
