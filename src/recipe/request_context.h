// What the readers of the four protocols share while one body is read: the settings that the fields gave, before they are resolved
// for the model, and the error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "recipe/request.h"
#include "recipe/request_fields.h"

namespace deepinfer::recipe {

/// `tool_choice` as a client wrote it.
struct RequestedToolChoice {
  enum class Kind : uint8_t { kAuto, kNone, kRequired, kNamed };
  Kind kind = Kind::kAuto;
  std::string name;  // kNamed
};

struct RequestContext {
  explicit RequestContext(const RequestOptions& request_options) : options(request_options) {}

  const RequestOptions& options;
  Request request;
  RequestError error;

  std::optional<bool> thinking;       // `thinking.type`
  std::optional<std::string> effort;  // the effort's name, "none" included
  std::optional<int> effort_number;   // our extension
  std::optional<float> temperature;
  std::optional<float> top_p;
  std::optional<int64_t> max_tokens;
  bool lower_max_tokens = false;  // Messages: a larger value is lowered silently
  bool has_stream_options = false;
  bool strict_format = false;        // json_schema with `strict: true`
  bool has_response_format = false;  // an answer's form was named; in Chat `text` counts, too
  RequestedToolChoice tool_choice;

  Protocol protocol() const { return request.protocol; }
  Conversation& conversation() { return request.conversation; }

  /// Fill the error; false, so that callers can return it.
  bool RejectBody(RejectKind kind, const FieldPath& path, std::string_view what);
  bool Reject(RejectKind kind, std::string message);
};

/// Everything that follows from the settings once all fields are read: thinking and effort (spec: recipe.md §7.1), sampling (§7.2),
/// tools that stay, constraint, the output parser's stage, and the checks that need all of it. False after a Reject.
bool ResolveSettings(RequestContext& context);

}  // namespace deepinfer::recipe
