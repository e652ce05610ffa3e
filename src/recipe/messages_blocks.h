// Turns and content blocks of the Anthropic Messages protocol (spec: recipe.md §7.5).
#pragma once

#include "recipe/request_context.h"
#include "recipe/request_fields.h"

namespace deepinfer::recipe {

inline constexpr Field kMessagesMessageFields[] = {
    {"role", FieldType::kString, FieldPresence::kRequired, "`user`, `assistant`, `system`"},
    {"content", FieldType::kStringOrArray, FieldPresence::kRequired,
     "a string or blocks; only a system message may have none"},
};

inline constexpr Field kMessagesBlockFields[] = {
    {"type", FieldType::kString, FieldPresence::kRequired,
     "`text`, `image`, `document`, `thinking`, `tool_use`, `tool_result`, `tool_addition`; `server_tool_use` "
     "and "
     "`web_search_tool_result` are refused or dropped. In a result: `text`, `image`, `document`, "
     "`tool_reference`"},
    {"text", FieldType::kAny, FieldPresence::kOptional, "`text`: required, a string"},
    {"source", FieldType::kAny, FieldPresence::kOptional,
     "`image`, `document`: required. A document becomes the text `[Unsupported document type: …]`"},
    {"thinking", FieldType::kAny, FieldPresence::kOptional,
     "`thinking` (assistant only): required, the reasoning"},
    {"signature", FieldType::kAny, FieldPresence::kNullable, "`thinking`: ignored"},
    {"id", FieldType::kAny, FieldPresence::kOptional,
     "`tool_use` (assistant only): required, once in a message"},
    {"name", FieldType::kAny, FieldPresence::kOptional, "`tool_use`: required"},
    {"input", FieldType::kAny, FieldPresence::kOptional, "`tool_use`: required, usually an object"},
    {"tool_use_id", FieldType::kAny, FieldPresence::kOptional,
     "`tool_result` (user only): required. The results of all calls come first in the next message"},
    {"content", FieldType::kAny, FieldPresence::kNullable, "`tool_result`: a string or blocks"},
    {"is_error", FieldType::kAny, FieldPresence::kNullable, "`tool_result`: ignored"},
    {"tool", FieldType::kAny, FieldPresence::kOptional,
     "`tool_addition` (system only): required, loads a deferred tool"},
    {"tool_name", FieldType::kAny, FieldPresence::kOptional,
     "`tool_reference`: required, loads a deferred tool"},
};

inline constexpr Field kMessagesSourceFields[] = {
    {"type", FieldType::kAny, FieldPresence::kOptional,
     "required for images: `base64`, `url`; `file` is refused"},
    {"media_type", FieldType::kAny, FieldPresence::kNullable,
     "`base64`: `image/jpeg`, `image/jpg`, `image/png`, `image/gif`, `image/webp`; anything for a document"},
    {"data", FieldType::kAny, FieldPresence::kOptional, "`base64`: required; wrong padding is repaired"},
    {"url", FieldType::kAny, FieldPresence::kOptional,
     "`url`: required, an http(s) URL of at most 8192 bytes"},
};

inline constexpr Field kMessagesReferenceFields[] = {
    {"type", FieldType::kString, FieldPresence::kRequired, "`tool_reference`"},
    {"name", FieldType::kString, FieldPresence::kRequired, "a declared tool"},
};

/// Reads `messages` behind the system text. The tools have been read. False after a Reject.
bool ReadMessagesTurns(JsonView messages, const FieldPath& path, RequestContext& context);

}  // namespace deepinfer::recipe
