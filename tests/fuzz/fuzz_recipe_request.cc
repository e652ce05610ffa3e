// Bodies of the four protocols: refused with an error that says something, or a request that renders. The first byte picks protocol
// and options.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "recipe/prompt.h"
#include "recipe/request.h"
#include "recipe/request_json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace deepinfer::recipe;
  if (size == 0) return 0;
  RequestOptions options;
  options.default_thinking = (data[0] & 4U) == 0;
  options.require_reasoning_history = (data[0] & 8U) != 0;
  options.fill_in_the_middle = true;
  if ((data[0] & 16U) != 0) {
    options.messages_web_search = RequestOptions::WebSearch::kDrop;
    options.responses_web_search = RequestOptions::WebSearch::kReject;
    options.chat_developer = RequestOptions::DeveloperRole::kSystem;
  }
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  const RequestResult result = ParseRequest(static_cast<Protocol>(data[0] & 3U), body, options);
  if (!result.ok()) {
    if (result.error().status < 400 || result.error().message.empty()) std::abort();
    return 0;
  }
  deepinfer::json::Object settings;
  AppendSettings(*result, &settings);
  if (result->completion.has_value()) {
    RenderCompletion(result->completion->prompt, result->completion->suffix);
    return 0;
  }
  // What passed the checks can be rendered in every profile.
  for (const PromptProfile profile :
       {PromptProfile::kRecipe, PromptProfile::kCheckpoint, PromptProfile::kV4}) {
    PromptOptions prompt_options;
    prompt_options.profile = profile;
    const auto prompt = RenderPrompt(result->conversation, prompt_options);
    if (!prompt.ok()) std::abort();
  }
  return 0;
}
