#include "recipe/responses_items.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "recipe/compact_json.h"
#include "recipe/request_content.h"

namespace deepinfer::recipe {
namespace {

constexpr std::string_view kToolSearchName = "tool_search";

/// Reads the items one after the other. Calls and their outputs are collected until every call has its output.
class ItemReader {
 public:
  ItemReader(ResponsesToolReader* tools, RequestContext& context) : tools_(tools), context_(context) {}

  bool Read(JsonView items, const FieldPath& path) {
    for (const JsonView item : items.elements()) {
      if (!ReadItem(item, path.Element(index_))) return false;
      ++index_;
    }
    return calls_.empty() || RejectOpenCall();
  }

 private:
  bool ReadItem(JsonView item, const FieldPath& path) {
    if (!item.is_object()) return context_.RejectBody(RejectKind::kWrongType, path, "invalid input item");
    FieldValues values;
    if (!FieldValues::Read(item, path, kResponsesItemFields, context_, &values)) return false;
    const auto type = values["type"];
    const std::string_view name = type.has_value() ? type->AsString() : "message";
    if (name == "function_call") return ReadFunctionCall(values, path);
    if (name == "custom_tool_call") return ReadCustomCall(values, path);
    if (name == "tool_search_call") return ReadSearchCall(values, path);
    if (name == "function_call_output") return ReadOutput(values, false, path);
    if (name == "custom_tool_call_output") return ReadOutput(values, true, path);
    if (name == "tool_search_output") return ReadSearchOutput(values, path);
    // Types that nobody knows are not there at all; a search of a server stands between a call and its output.
    if (name != "message" && name != "reasoning" && name != "web_search_call") return true;
    if (!calls_.empty()) return RejectOpenCall();
    if (name == "message") return ReadMessage(values, path);
    return name == "web_search_call" || ReadReasoning(values, path);
  }

  bool ReadMessage(const FieldValues& values, const FieldPath& path) {
    static constexpr std::array<std::string_view, 4> kRoles = {"user", "assistant", "system", "developer"};
    const auto role_value = values.Required("role", FieldType::kString, path, context_);
    if (!role_value.has_value()) return false;
    const auto role = ReadVariant(*role_value, path.Member("role"), kRoles, context_);
    if (!role.has_value()) return false;
    const auto value = values.Required("content", FieldType::kStringOrArray, path, context_);
    Content content;
    if (!value.has_value() || !ReadContent(*value, path.Member("content"), &content)) return false;
    if (kRoles[*role] == "assistant") return AddAssistantText(std::move(content));
    if (kRoles[*role] == "user") {
      UserMessage message;
      message.content = std::move(content);
      context_.conversation().messages.emplace_back(std::move(message));
    } else {
      context_.conversation().messages.emplace_back(SystemMessage{std::move(content), {}, {}});
    }
    return true;
  }

  bool AddAssistantText(Content content) {
    if (!content.images.empty()) {
      return context_.Reject(RejectKind::kImage, ItemPlace() + ": Image in assistant message is unsupported");
    }
    AssistantMessage* last = OpenAssistant();
    if (last == nullptr) {
      context_.conversation().messages.emplace_back(AssistantMessage());
      last = OpenAssistant();
    }
    if (content.text.empty()) return true;
    if (last->content.empty()) {
      last->content = std::move(content.text);
    } else {
      last->content += "\n\n" + content.text;
    }
    return true;
  }

  // The assistant message at the end, if it has no calls yet.
  AssistantMessage* OpenAssistant() {
    std::vector<Message>& messages = context_.conversation().messages;
    if (messages.empty()) return nullptr;
    auto* last = std::get_if<AssistantMessage>(&messages.back());
    return last != nullptr && last->tool_calls.empty() ? last : nullptr;
  }

  bool ReadReasoning(const FieldValues& values, const FieldPath& path) {
    if (!values.Check("content", FieldType::kArray, path, context_) ||
        !values.Check("encrypted_content", FieldType::kString, path, context_)) {
      return false;
    }
    std::string text;
    const auto content = values["content"];
    if (content.has_value() && content->is_array()) {
      const FieldPath content_path = path.Member("content");
      size_t index = 0;
      for (const JsonView part : content->elements()) {
        static constexpr Field kFields[] = {{"text", FieldType::kString, FieldPresence::kRequired, ""}};
        FieldValues part_values;
        if (!FieldValues::Read(part, content_path.Element(index), kFields, context_, &part_values))
          return false;
        if (index++ > 0) text += '\n';
        text += part_values.Text("text");
      }
    }
    if (text.empty()) return true;
    AssistantMessage* last = OpenAssistant();
    if (last == nullptr || !last->content.empty()) {
      context_.conversation().messages.emplace_back(AssistantMessage());
      last = OpenAssistant();
    }
    if (last->reasoning.has_value()) {
      *last->reasoning += "\n" + text;
    } else {
      last->reasoning = std::move(text);
    }
    return true;
  }

  std::optional<std::string_view> ReadCallId(const FieldValues& values, const FieldPath& path) {
    const auto id = values.Required("call_id", FieldType::kString, path, context_);
    if (!id.has_value()) return std::nullopt;
    if (id->AsString().empty()) {
      context_.Reject(
          RejectKind::kEmptyString,
          fmt::format(
              "Invalid '{}.call_id': empty string. Expected a string with minimum length 1, but got an "
              "empty string instead.",
              ItemPlace()));
      return std::nullopt;
    }
    return id->AsString();
  }

  bool AddCall(std::string_view id, std::string name, std::string arguments) {
    if (!call_ids_.insert(id).second) {
      return context_.Reject(RejectKind::kToolHistory,
                             fmt::format("Duplicate 'call_id': {}.", Shortened(id)));
    }
    calls_.push_back({std::string(id), std::move(name), std::move(arguments)});
    open_ids_.insert(id);
    return true;
  }

  bool ReadFunctionCall(const FieldValues& values, const FieldPath& path) {
    const auto name = values.Required("name", FieldType::kString, path, context_);
    if (!name.has_value()) return false;
    const auto arguments = values.Required("arguments", FieldType::kString, path, context_);
    if (!arguments.has_value() || !values.Check("namespace", FieldType::kString, path, context_))
      return false;
    const auto id = ReadCallId(values, path);
    if (!id.has_value()) return false;
    const auto name_space = values["namespace"];
    std::string full_name = name_space.has_value()
                                ? fmt::format("{}::{}", name_space->AsString(), name->AsString())
                                : std::string(name->AsString());
    return AddCall(*id, std::move(full_name), std::string(arguments->AsString()));
  }

  bool ReadCustomCall(const FieldValues& values, const FieldPath& path) {
    const auto name = values.Required("name", FieldType::kString, path, context_);
    if (!name.has_value()) return false;
    const auto input = values.Required("input", FieldType::kString, path, context_);
    if (!input.has_value()) return false;
    const auto id = ReadCallId(values, path);
    if (!id.has_value()) return false;
    std::string arguments = "{\"input\":";
    json::AppendQuoted(input->AsString(), &arguments);
    return AddCall(*id, std::string(name->AsString()), arguments + "}");
  }

  bool CheckExecution(const FieldValues& values, const FieldPath& path) {
    static constexpr std::array<std::string_view, 2> kExecutions = {"client", "server"};
    const auto execution = values["execution"];
    return !execution.has_value() || ReadVariant(*execution, path.Member("execution"), kExecutions, context_);
  }

  bool ReadSearchCall(const FieldValues& values, const FieldPath& path) {
    const auto arguments = values.Required("arguments", FieldType::kObject, path, context_);
    if (!arguments.has_value() || !CheckExecution(values, path)) return false;
    const auto id = ReadCallId(values, path);
    if (!id.has_value()) return false;
    std::string text;
    AppendCompactJson(arguments->ToValue(), &text);
    return AddCall(*id, std::string(kToolSearchName), std::move(text));
  }

  // A custom tool may have nothing to say.
  bool ReadOutput(const FieldValues& values, bool may_be_absent, const FieldPath& path) {
    ToolMessage message;
    const auto id = ReadCallId(values, path);
    if (!id.has_value()) return false;
    const auto given = values["output"];
    if (!may_be_absent || (given.has_value() && !given->is_null())) {
      const auto output = values.Required("output", FieldType::kStringOrArray, path, context_);
      if (!output.has_value() || !ReadContent(*output, path.Member("output"), &message.content)) return false;
    }
    return AddOutput(*id, std::move(message));
  }

  bool ReadSearchOutput(const FieldValues& values, const FieldPath& path) {
    const auto tools = values.Required("tools", FieldType::kArray, path, context_);
    if (!tools.has_value() || !CheckExecution(values, path)) return false;
    const auto id = ReadCallId(values, path);
    if (!id.has_value()) return false;
    ResponsesToolReader::Listing listing;
    if (!tools_->Read(*tools, path.Member("tools"), ItemPlace() + ".tools", true, &listing)) return false;
    ToolMessage message;
    AppendCompactJson(std::move(listing.flat), &message.content.text);
    std::move(listing.names.begin(), listing.names.end(), std::back_inserter(loaded_tools_));
    return AddOutput(*id, std::move(message));
  }

  bool AddOutput(std::string_view id, ToolMessage message) {
    if (!call_ids_.contains(id)) {
      return context_.Reject(
          RejectKind::kToolHistory,
          fmt::format("No tool call found for tool output with call_id {}.", Shortened(id)));
    }
    if (open_ids_.erase(id) == 0) {
      return context_.Reject(RejectKind::kToolHistory,
                             fmt::format("Duplicate tool output for call_id: {}.", Shortened(id)));
    }
    message.tool_call_id = id;
    outputs_.push_back(std::move(message));
    if (open_ids_.empty()) AddGroup();
    return true;
  }

  // Calls in the order in which the model wrote them (spec: recipe.md §17 D8), then the outputs, then what searches found.
  void AddGroup() {
    std::vector<Message>& messages = context_.conversation().messages;
    if (OpenAssistant() == nullptr) messages.emplace_back(AssistantMessage());
    OpenAssistant()->tool_calls = std::move(calls_);
    for (ToolMessage& output : outputs_) messages.emplace_back(std::move(output));
    if (!loaded_tools_.empty()) messages.emplace_back(SystemMessage{{}, std::move(loaded_tools_), {}});
    calls_.clear();
    outputs_.clear();
    loaded_tools_.clear();
  }

  bool RejectOpenCall() {
    const auto open = std::find_if(calls_.begin(), calls_.end(),
                                   [this](const ToolCall& call) { return open_ids_.contains(call.id); });
    return context_.Reject(RejectKind::kToolHistory,
                           fmt::format("No tool output found for tool call {}.", Shortened(open->id)));
  }

  bool ReadContent(JsonView value, const FieldPath& path, Content* content) {
    if (value.is_string()) {
      content->text = value.AsString();
      return true;
    }
    ContentBuilder builder;
    size_t index = 0;
    for (const JsonView block : value.elements()) {
      if (!ReadBlock(block, path.Element(index), index, &builder)) return false;
      ++index;
    }
    *content = builder.Take();
    return true;
  }

  bool ReadBlock(JsonView block, const FieldPath& path, size_t index, ContentBuilder* builder) {
    static constexpr std::array<std::string_view, 4> kTypes = {"input_text", "output_text", "input_image",
                                                               "input_file"};
    FieldValues values;
    if (!FieldValues::Read(block, path, kResponsesBlockFields, context_, &values)) return false;
    const auto type = ReadVariant(*values["type"], path.Member("type"), kTypes, context_);
    if (!type.has_value()) return false;
    if (kTypes[*type] == "input_file") {
      builder->AddText("[Unsupported Document]");
      return true;
    }
    if (kTypes[*type] == "input_image") {
      auto image = ReadImage(values, path, index);
      if (!image.has_value()) return false;
      builder->AddImage(*std::move(image));
      return true;
    }
    const auto text = values.Required("text", FieldType::kString, path, context_);
    if (!text.has_value()) return false;
    builder->AddText(text->AsString());
    return true;
  }

  std::optional<ImageSource> ReadImage(const FieldValues& values, const FieldPath& path, size_t index) {
    if (!values.Check("image_url", FieldType::kString, path, context_) ||
        !values.Check("file_id", FieldType::kString, path, context_)) {
      return std::nullopt;
    }
    const auto detail = ReadImageDetail(values, path, context_);
    if (!detail.has_value()) return std::nullopt;
    const auto url = values["image_url"];
    const auto id = values["file_id"];
    const std::string block_place = fmt::format("{}.content[{}]", ItemPlace(), index);
    std::string_view fault;
    if (url.has_value() && id.has_value()) {
      fault = "input_image cannot have both image_url and file_id";
    } else if (id.has_value()) {
      fault = "file_id is not supported. Pass the image as a base64 data url instead.";
    } else if (!url.has_value()) {
      fault = "input_image must have image_url or file_id";
    }
    if (!fault.empty()) {
      context_.Reject(RejectKind::kImage, fmt::format("{}: {}", block_place, fault));
      return std::nullopt;
    }
    // "image_url" stands in front of the length's message without a colon.
    return ReadImageUrl(url->AsString(), *detail, {ItemPlace(), block_place, "image_url "}, context_);
  }

  std::string ItemPlace() const { return fmt::format("input[{}]", index_); }

  ResponsesToolReader* tools_;
  RequestContext& context_;
  size_t index_ = 0;
  std::unordered_set<std::string_view> call_ids_;  // of the whole input
  // The group of calls that is being collected.
  std::vector<ToolCall> calls_;
  std::unordered_set<std::string_view> open_ids_;  // calls without output
  std::vector<ToolMessage> outputs_;
  std::vector<std::string> loaded_tools_;
};

}  // namespace

bool ReadResponsesItems(JsonView items, const FieldPath& path, ResponsesToolReader* tools,
                        RequestContext& context) {
  return ItemReader(tools, context).Read(items, path);
}

}  // namespace deepinfer::recipe
