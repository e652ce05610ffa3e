// The readers of the four protocols.
#pragma once

#include <span>

#include "recipe/request_context.h"
#include "recipe/request_fields.h"

namespace deepinfer::recipe {

/// Read a whole body into the context and resolve its settings. False after a Reject.
bool ReadChatBody(JsonView body, RequestContext& context);
bool ReadResponsesBody(JsonView body, RequestContext& context);
bool ReadMessagesBody(JsonView body, RequestContext& context);
bool ReadCompletionsBody(JsonView body, RequestContext& context);

std::span<const FieldTable> ChatTables();
std::span<const FieldTable> ResponsesTables();
std::span<const FieldTable> MessagesTables();
std::span<const FieldTable> CompletionsTables();

}  // namespace deepinfer::recipe
