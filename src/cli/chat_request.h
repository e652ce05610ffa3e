// From what the command line, files and lines say of a conversation to a request of the recipe library (spec: cli.md §2).
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "base/json.h"
#include "base/status.h"
#include "cli/common_options.h"
#include "recipe/request.h"

namespace deepinfer::cli {

/// Fields of a chat request that shape its prompt, and `effort`, the command line's name for `reasoning_effort`.
std::span<const std::string_view> ChatFields();

/// Takes the fields of ChatFields out of `fields`, an object, into a body of Chat Completions. `thinking` may be true, false, "on" or
/// "off" as well. Errors: kInvalidArgument that names the field. What is wrong inside a field is ParseChat's to say.
Result<json::Value> TakeChatFields(json::Value* fields);

/// Which of the two goes before: the body's own thinking and effort, or those of the command line.
enum class Precedence : uint8_t { kBody, kOptions };
/// Puts --thinking, --effort and --system into a body that has messages.
void ApplyPromptSettings(const PromptSettings& settings, Precedence precedence, json::Value* body);

/// A body with one message of the user.
json::Value TextBody(std::string_view text);

/// Reads a body without `model`. Errors: kInvalidArgument with the library's message; those of CheckSupported.
Result<recipe::Request> ParseChat(json::Value body);

/// Refuses what an answer could not keep: a schema or a regular expression needs a decoder that is bound to a grammar, images need an
/// image encoder, and the prompts of DeepSeek-V4 another model. Errors: kUnavailable that names the field.
Status CheckSupported(const recipe::Request& request);

}  // namespace deepinfer::cli
