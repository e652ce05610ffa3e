// Requests as JSON, in the form of goldens/recipe/prompts.jsonl: what `deepinfer encode` prints and what its lines may say.
#pragma once

#include <string_view>

#include "base/json.h"
#include "base/status.h"
#include "recipe/request.h"

namespace deepinfer::recipe {

/// Sets one option by its name: default_thinking, missing_reasoning ("fill" or "reject"), messages_web_search and
/// responses_web_search ("drop" or "reject"), max_tokens_bound, alias ({name: "v41" or "v4"}), fill_in_the_middle, developer_role
/// ("reject", "system", "user"). Errors: kInvalidArgument that names the option.
Status ApplyRequestOption(std::string_view name, const json::Value& value, RequestOptions* options);

/// Appends "thinking", "effort" (name, number or null), "parsing" {tools, stage, json, stops}, "inference" {max_tokens,
/// temperature, top_p, and those of logprobs, top_logprobs, seed, constraint [kind, text] that are set}, "stream".
void AppendSettings(const Request& request, json::Object* out);

/// {kind, detail, path} of an image.
json::Value ImageJson(const ImageSource& image);

}  // namespace deepinfer::recipe
