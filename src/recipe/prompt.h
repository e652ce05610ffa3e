// Conversations become prompts: text with marked control tokens, then token ids (spec: recipe.md §3).
//
//     auto prompt = RenderPrompt(conversation);
//     auto ids = EncodePrompt(*prompt, *tokenizer);
//
// Control tokens come from this file alone. What clients write is ordinary text, also where it spells a control token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "recipe/conversation.h"
#include "tokenizer/special_tokens.h"
#include "tokenizer/tokenizer.h"

namespace deepinfer::recipe {

/// Rules by which a prompt is written.
enum class PromptProfile : uint8_t {
  kRecipe,      // DeepSeek's recipe library 0.2.0, the default (spec: recipe.md §3.2)
  kCheckpoint,  // the encoder in the model repository (spec: recipe.md §3.9, §3.12)
  kV4,          // DeepSeek-V4: no System token, tags without blanks, other texts for effort and JSON mode
};
std::string_view PromptProfileName(PromptProfile profile);
std::optional<PromptProfile> FindPromptProfile(std::string_view name);

/// What becomes of the reasoning of earlier turns in thinking mode (`--history-thinking`, spec: recipe.md §3.9).
enum class HistoryThinking : uint8_t {
  kAuto,  // the profile's rule: kept with active tools; without, dropped (recipe) or dropped before the last user turn (checkpoint)
  kKeep,  // always kept: prefixes stay the same from turn to turn
  kDrop,  // always dropped (checkpoint: before the last user turn)
};

struct PromptOptions {
  PromptProfile profile = PromptProfile::kRecipe;
  HistoryThinking history_thinking = HistoryThinking::kAuto;
};

/// How the text of a prompt spells an image; the ids have the image token of the vocabulary in its place (spec: recipe.md §3.8).
inline constexpr std::string_view kImageText = "<｜image｜>";

/// A rendered prompt.
struct Prompt {
  /// A control token: the bytes of `text` that stand for it.
  struct Special {
    size_t begin, end;
    TokenRole role;

    friend bool operator==(const Special&, const Special&) = default;
  };
  std::string text;
  std::vector<Special> special;  // ascending, apart or touching
  /// Sources of the images, one for each TokenRole::kImage and in that order. They belong to the conversation.
  std::vector<const ImageSource*> images;
};

/// Renders a conversation. Requests were checked before; the encoder itself demands little:
/// Errors: kInvalidArgument for a strict tool that cannot be normalised or a loaded tool that is not declared.
Result<Prompt> RenderPrompt(const Conversation& conversation, const PromptOptions& options = {});

/// The prompt of a text completion: the text itself; with a suffix, the model is to fill in what stands between the two
/// (spec: recipe.md §3.11).
Prompt RenderCompletion(std::string_view prompt, std::optional<std::string_view> suffix);

/// Token ids. Text between two control tokens is encoded as one piece and never gives a control token.
/// Errors: kInvalidArgument when the vocabulary lacks a control token of the prompt or the text is not UTF-8;
/// kResourceExhausted beyond `max_tokens`.
Result<std::vector<int32_t>> EncodePrompt(const Prompt& prompt, const Tokenizer& tokenizer,
                                          size_t max_tokens = 1'048'576);

/// Half-open ranges of code points of the control tokens.
std::vector<std::pair<size_t, size_t>> SpecialCodePoints(const Prompt& prompt);

}  // namespace deepinfer::recipe
