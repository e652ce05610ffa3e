// The control tokens of the released model, by the text they have in every tokenizer of the family. Ids differ between
// tokenizers, so they are looked up by text (spec: checkpoint.md §8.3, §8.5).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace deepinfer {

enum class TokenRole : uint8_t {
  kBos,
  kEos,
  kPad,
  kSystem,  // also the draft's noise token
  kUser,
  kAssistant,
  kThinkBegin,
  kThinkEnd,
  kDsml,
  kLatestReminder,
  kImage,
  kEot,
  kFimHole,
  kFimBegin,
  kFimEnd,
  kAction,
  kQuery,
  kAuthority,
  kDomain,
  kTitle,
  kExtractedUrl,
  kReadUrl,
  kNumRoles,
};

inline constexpr size_t kNumTokenRoles = static_cast<size_t>(TokenRole::kNumRoles);

/// Text of each role's token, in the order of TokenRole. The bars are U+FF5C, the low lines U+2581, but for <|EOT|>.
inline constexpr std::array<std::string_view, kNumTokenRoles> kTokenRoleText = {
    "<｜begin▁of▁sentence｜>",
    "<｜end▁of▁sentence｜>",
    "<｜▁pad▁｜>",
    "<｜System｜>",
    "<｜User｜>",
    "<｜Assistant｜>",
    "<think>",
    "</think>",
    "｜DSML｜",
    "<｜latest_reminder｜>",
    "<｜deepseek_image｜>",
    "<|EOT|>",
    "<｜fim▁hole｜>",
    "<｜fim▁begin｜>",
    "<｜fim▁end｜>",
    "<｜action｜>",
    "<｜query｜>",
    "<｜authority｜>",
    "<｜domain｜>",
    "<｜title｜>",
    "<｜extracted_url｜>",
    "<｜read_url｜>",
};

/// Text of the token with this role.
constexpr std::string_view TokenRoleText(TokenRole role) { return kTokenRoleText[static_cast<size_t>(role)]; }

/// True for token texts that are never valid output: padding, placeholders, the mid-conversation system turn and image
/// markers (spec: checkpoint.md §8.5; in the released vocabulary the ids 2, 128000-128799, 128847-129270 and 129279).
constexpr bool NeverValidOutput(std::string_view text) {
  return text == TokenRoleText(TokenRole::kPad) || text == TokenRoleText(TokenRole::kSystem) ||
         text == TokenRoleText(TokenRole::kImage) || text == "<｜rl_image_pad｜>" ||
         text == "<｜rl_image_start｜>" || text.starts_with("<｜place▁holder▁no▁") ||
         text.starts_with("<|place_holder_mm_span_");
}

}  // namespace deepinfer
