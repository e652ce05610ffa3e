// The way back from a conversation to a request body, for programs that keep conversations (spec: recipe.md §7.3).
#pragma once

#include "base/json.h"
#include "recipe/conversation.h"

namespace deepinfer::recipe {

/// The body of a Chat Completions request without `model`: messages, tools, tool_choice, response_format, thinking and
/// reasoning_effort. What has its default is left out, thinking apart. ParseRequest of the body gives the conversation back, as far
/// as Chat Completions can say it: tasks, tools of single messages and deferred tools have no form there.
json::Value ChatBody(const Conversation& conversation);

/// `reasoning_effort` of a body: a name or a number.
json::Value EffortValue(const Effort& effort);

/// The calls of an assistant turn as `tool_calls` has them.
json::Array ChatToolCalls(const std::vector<ToolCall>& calls);

}  // namespace deepinfer::recipe
