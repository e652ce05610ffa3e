// One line of a batch file: what it asks for (spec: cli.md §2, batch).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/sha256.h"
#include "base/status.h"
#include "cli/answer.h"
#include "cli/common_options.h"
#include "recipe/request.h"

namespace deepinfer::cli {

/// Longest line of an input file in bytes.
inline constexpr size_t kMaxLineBytes = 100'000'000;

/// A parsed line. Exactly one of chat, prompt and prompt_ids is set.
struct BatchRequest {
  std::optional<recipe::Request> chat;
  std::optional<std::string> prompt;
  bool special = false;  // `prompt`: special tokens are recognised in it
  std::optional<std::vector<int32_t>> prompt_ids;
  BaseRequest base;
  bool has_n = false;
};

/// The field that a line's prompt stands in: "messages", "prompt" or "prompt_ids".
std::string PromptField(const BatchRequest& request);

/// Sampling of the command line, and what the model allows.
struct BatchDefaults {
  BaseRequest base;
  bool has_n = false;
  PromptSettings prompt;
  int64_t vocab_size = 0;
};

/// The line's `id` (string or integer); null when it has none. Errors: kInvalidArgument for any other type.
Result<json::Value> LineId(const json::Value& line);

/// How lines are read as JSON: a conversation may be as deep as a request body (spec: recipe.md §7).
json::ParseLimits LineLimits();

/// Reads the fields of a line. Errors: kInvalidArgument naming the field (unknown ones with the nearest spelling); those of ParseChat.
Result<BatchRequest> ParseBatchRequest(json::Value line, const BatchDefaults& defaults);

/// The prompt of a line; its ids are taken out of `request`. Errors: those of ChatPrompt and TextPrompt.
Result<Prompt> LinePrompt(const Tokenizer& tokenizer, BatchRequest& request,
                          recipe::HistoryThinking history_thinking);

/// Sets the sampling fields of `fields`, an object; `has_n` tells whether `n` is among them. Errors: as ParseBatchRequest; every
/// other field is refused as unknown.
Status ApplySamplingFields(const json::Value& fields, int64_t vocab_size, BaseRequest* base, bool* has_n);

/// Which line of which input: all that seeds and ids follow from, so that a resumed run is identical to an uninterrupted one.
struct LineIdentity {
  Sha256Digest input{};  // of the whole input, or of what a stream has given so far
  int64_t number = 0;    // from 0

  /// Seed of a line without one, 53 bits (every JSON reader keeps those).
  uint64_t Seed() const;
  /// 32 hexadecimal digits, another text for every purpose.
  std::string Id(std::string_view purpose) const;
};

}  // namespace deepinfer::cli
