// Input items of the Responses protocol (spec: recipe.md §7.6).
#pragma once

#include "recipe/request_context.h"
#include "recipe/request_fields.h"
#include "recipe/responses_tools.h"

namespace deepinfer::recipe {

inline constexpr Field kResponsesItemFields[] = {
    {"type", FieldType::kString, FieldPresence::kOptional,
     "`message` (default), `reasoning`, `function_call`, `function_call_output`, `custom_tool_call`, "
     "`custom_tool_call_output`, `tool_search_call`, `tool_search_output`; any other type is ignored"},
    {"role", FieldType::kAny, FieldPresence::kOptional,
     "`message`: required, `user`, `assistant`, `system`, `developer` (like `system`)"},
    {"content", FieldType::kAny, FieldPresence::kOptional,
     "`message`: required, a string or blocks; `reasoning`: blocks with a `text`, joined with a newline"},
    {"encrypted_content", FieldType::kAny, FieldPresence::kNullable, "`reasoning`: a string, ignored"},
    {"call_id", FieldType::kAny, FieldPresence::kOptional,
     "calls and outputs: required, not empty, once in the input. The outputs of all calls follow them, "
     "nothing between"},
    {"name", FieldType::kAny, FieldPresence::kOptional, "`function_call`, `custom_tool_call`: required"},
    {"namespace", FieldType::kAny, FieldPresence::kNullable,
     "`function_call`: the call becomes `namespace::name`"},
    {"arguments", FieldType::kAny, FieldPresence::kOptional,
     "`function_call`: required, the text of a JSON object; `tool_search_call`: required, an object"},
    {"input", FieldType::kAny, FieldPresence::kOptional, "`custom_tool_call`: required, a string"},
    {"output", FieldType::kAny, FieldPresence::kOptional,
     "`function_call_output`: required, `custom_tool_call_output`: may be null or absent; a string or "
     "blocks"},
    {"execution", FieldType::kAny, FieldPresence::kNullable, "searches: `client` or `server`, ignored"},
    {"tools", FieldType::kAny, FieldPresence::kOptional,
     "`tool_search_output`: required, tools that the model may call from here on"},
};

inline constexpr Field kResponsesBlockFields[] = {
    {"type", FieldType::kString, FieldPresence::kRequired,
     "`input_text`, `output_text`, `input_image`, `input_file` (becomes `[Unsupported Document]`)"},
    {"text", FieldType::kAny, FieldPresence::kOptional, "texts: required, a string"},
    {"image_url", FieldType::kAny, FieldPresence::kNullable,
     "`input_image`: an http(s) URL of at most 8192 bytes, or a base64 `data:` URL; not in assistant "
     "messages"},
    {"file_id", FieldType::kAny, FieldPresence::kNullable, "`input_image`: refused"},
    {"detail", FieldType::kAny, FieldPresence::kNullable,
     "`input_image`: `low`, `high` (default), `original`, `auto`"},
};

/// Reads the items of `input` behind the instructions; adds the tools that searches found. False after a Reject.
bool ReadResponsesItems(JsonView items, const FieldPath& path, ResponsesToolReader* tools,
                        RequestContext& context);

}  // namespace deepinfer::recipe
