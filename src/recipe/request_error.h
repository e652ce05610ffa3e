// Why a request was refused: what a server answers and what tests compare (spec: recipe.md §7, §8.7).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"

namespace deepinfer::recipe {

/// Kinds of refusal; the names (RejectKindName) are the classes of goldens/recipe/rejects.jsonl.
enum class RejectKind : uint8_t {
  kBadJson,             // not JSON: syntax, depth, lone surrogate, number out of range
  kTooLarge,            // body beyond the limit of the server
  kMissingField,        // a required member is absent
  kWrongType,           // a member has another JSON type
  kUnknownVariant,      // a name that is none of the allowed ones
  kNumberRange,         // an integer that the field's type cannot hold
  kRange,               // a number outside the documented range
  kEmptyArray,          // a list that must hold something
  kEmptyString,         // a text that must hold something
  kTooLong,             // too many items
  kOptionPair,          // a field that needs another one, or excludes it
  kModel,               // unknown model name
  kContext,             // prompt and answer do not fit the context
  kAssistantEmpty,      // assistant turn without content and calls
  kBlockRole,           // a content block in a message of the wrong role
  kToolName,            // name of a declared tool
  kToolNamesUnique,     // two tools of one name
  kToolChoiceUnknown,   // choice of a tool that is not declared
  kThinkingToolChoice,  // forced call with thinking on
  kToolHistory,         // calls and results do not match
  kToolSearch,          // deferred tools
  kServerTool,          // a tool that the server would have to run
  kCustomTool,          // a custom tool other than apply_patch
  kSchema,              // JSON Schema that does not compile
  kRegex,               // regular expression that does not compile
  kJsonWord,            // JSON mode without the word json
  kPrefix,              // prefix completion in a place where there is none
  kImage,               // image source
  kReasoningRequired,   // reasoning of earlier turns was not passed back
  kUnsupported,         // switched off on this server
};
std::string_view RejectKindName(RejectKind kind);

/// Where the request failed: while its JSON was read into the protocol's shape, or while that was converted. Clients see no
/// difference.
enum class RejectStage : uint8_t { kBody, kConvert };

/// An answer with an HTTP status instead of a result. Default constructed it says nothing; `status` is 0 then.
struct RequestError {
  int status = 0;  // 400, 413
  RejectKind kind = RejectKind::kBadJson;
  RejectStage stage = RejectStage::kBody;
  std::string type = "invalid_request_error";
  std::string code = "invalid_request_error";
  std::string message;

  /// {"error":{"message","type","param":null,"code"}}, the body of all protocols (spec: recipe.md §7).
  json::Value ToJson() const;
};

}  // namespace deepinfer::recipe
