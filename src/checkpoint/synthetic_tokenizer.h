// The 512-token tokenizer of the synthetic checkpoint (spec: checkpoint.md §10, last paragraphs; §8, §9.1).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace deepinfer {

/// `tokenizer.json`: ids 0-2 as released, 3-258 the byte symbols, 259-479 merges learnt from a small English text, 480-511 added
/// tokens with the flags of the released ones.
std::string SyntheticTokenizerJson();

/// `tokenizer_config.json` that goes with it.
std::string SyntheticTokenizerConfigJson();

/// Compressed class of every token (spec: checkpoint.md §9.1). All merges are ASCII, so the normalisation needs no Unicode tables.
std::vector<int32_t> SyntheticTokenMap();

}  // namespace deepinfer
