#include "recipe/request_error.h"

namespace deepinfer::recipe {

std::string_view RejectKindName(RejectKind kind) {
  switch (kind) {
    case RejectKind::kBadJson: return "bad_json";
    case RejectKind::kTooLarge: return "too_large";
    case RejectKind::kMissingField: return "missing_field";
    case RejectKind::kWrongType: return "wrong_type";
    case RejectKind::kUnknownVariant: return "unknown_variant";
    case RejectKind::kNumberRange: return "number_range";
    case RejectKind::kRange: return "range";
    case RejectKind::kEmptyArray: return "empty_array";
    case RejectKind::kEmptyString: return "empty_string";
    case RejectKind::kTooLong: return "too_long";
    case RejectKind::kOptionPair: return "option_pair";
    case RejectKind::kModel: return "model";
    case RejectKind::kContext: return "context";
    case RejectKind::kAssistantEmpty: return "assistant_empty";
    case RejectKind::kBlockRole: return "block_role";
    case RejectKind::kToolName: return "tool_name";
    case RejectKind::kToolNamesUnique: return "tool_names_unique";
    case RejectKind::kToolChoiceUnknown: return "tool_choice_unknown";
    case RejectKind::kThinkingToolChoice: return "thinking_tool_choice";
    case RejectKind::kToolHistory: return "tool_history";
    case RejectKind::kToolSearch: return "tool_search";
    case RejectKind::kServerTool: return "server_tool";
    case RejectKind::kCustomTool: return "custom_tool";
    case RejectKind::kSchema: return "schema";
    case RejectKind::kRegex: return "regex";
    case RejectKind::kJsonWord: return "json_word";
    case RejectKind::kPrefix: return "prefix";
    case RejectKind::kImage: return "image";
    case RejectKind::kReasoningRequired: return "reasoning_required";
    case RejectKind::kUnsupported: return "unsupported";
  }
  return "bad_json";
}

json::Value RequestError::ToJson() const {
  json::Object error;
  error.emplace_back("message", message);
  error.emplace_back("type", type);
  error.emplace_back("param", nullptr);
  error.emplace_back("code", code);
  return json::Object{{"error", std::move(error)}};
}

}  // namespace deepinfer::recipe
