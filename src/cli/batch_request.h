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
#include "cli/common_options.h"
#include "recipe/plain_chat.h"

namespace deepinfer::cli {

/// Longest line of an input file in bytes.
inline constexpr size_t kMaxLineBytes = 100'000'000;

/// A parsed line. Exactly one of messages, prompt and prompt_ids is set.
struct BatchRequest {
  std::optional<std::vector<recipe::plain::Message>> messages;
  std::optional<std::string> prompt;
  bool special = false;  // `prompt`: special tokens are recognised in it
  std::optional<std::vector<int32_t>> prompt_ids;
  std::optional<bool> thinking;
  std::optional<int> effort;
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

/// An OpenAI batch line: it has `custom_id`, `url` or `body`.
bool IsOpenAiBatchLine(const json::Value& line);

/// Reads the fields of a line. Errors: kInvalidArgument naming the field (unknown ones with the nearest spelling), kUnavailable for
/// tools and response formats.
Result<BatchRequest> ParseBatchRequest(const json::Value& line, const BatchDefaults& defaults);

/// Sets the sampling fields of `fields`, an object; `has_n` tells whether `n` is among them. Errors: as ParseBatchRequest; every
/// other field is refused as unknown.
Status ApplySamplingFields(const json::Value& fields, int64_t vocab_size, BaseRequest* base, bool* has_n);

/// Seed of a line without one: a hash of the input's digest and the line's number, 53 bits (every JSON reader keeps those).
uint64_t LineSeed(const Sha256Digest& digest, int64_t line_number);

}  // namespace deepinfer::cli
