#include "recipe/messages_blocks.h"

#include <algorithm>
#include <array>
#include <unordered_set>

#include <fmt/format.h>

#include "recipe/python_json.h"
#include "recipe/request_content.h"

namespace deepinfer::recipe {
namespace {

enum Role : uint8_t { kUser, kAssistant, kSystem };

enum BlockType : uint8_t {
  kText,
  kImage,
  kDocument,
  kThinking,
  kServerToolUse,
  kToolUse,
  kToolResult,
  kWebSearchToolResult,
  kToolAddition,
};
constexpr std::array<std::string_view, 9> kBlockTypes = {
    "text",
    "image",
    "document",
    "thinking",
    "server_tool_use",
    "tool_use",
    "tool_result",
    "web_search_tool_result",
    "tool_addition",
};

constexpr std::string_view kResultMissing =
    "`tool_use` ids were found without `tool_result` blocks immediately after: {}. Each `tool_use` block "
    "must have a "
    "corresponding `tool_result` block in the next message.";

/// Reads the turns one after the other; knows the calls that the next turn has to answer.
class TurnReader {
 public:
  explicit TurnReader(RequestContext& context) : context_(context) {
    for (const Tool& tool : context.conversation().tools) tool_names_.insert(tool.name);
  }

  bool Read(JsonView messages, const FieldPath& path) {
    if (messages.size() == 0) {
      return context_.Reject(RejectKind::kEmptyArray, "messages: at least one message is required");
    }
    for (const JsonView message : messages.elements()) {
      if (!ReadTurn(message, path.Element(index_))) return false;
      ++index_;
    }
    return open_calls_.empty() || RejectOpenCalls(fmt::format("messages.{}:", index_ - 1));
  }

 private:
  /// A block with the place of its message and its own.
  struct Block {
    FieldValues values;
    BlockType type = kText;
    FieldPath path;
    size_t index = 0;
  };

  bool ReadTurn(JsonView message, const FieldPath& path) {
    static constexpr std::array<std::string_view, 3> kRoles = {"user", "assistant", "system"};
    FieldValues values;
    if (!FieldValues::Read(message, path, kMessagesMessageFields, context_, &values)) return false;
    const auto role = ReadVariant(*values["role"], path.Member("role"), kRoles, context_);
    if (!role.has_value()) return false;
    const JsonView content = *values["content"];
    if (!open_calls_.empty() && (*role != kUser || content.is_string()))
      return RejectOpenCalls(Place() + ": ");
    if (content.is_string()) return AddPlainTurn(static_cast<Role>(*role), content.AsString());
    if (content.size() == 0 && *role != kSystem) {
      return context_.Reject(RejectKind::kEmptyArray, Place() + ": all messages must have non-empty content");
    }
    switch (static_cast<Role>(*role)) {
      case kUser: return ReadUserBlocks(content, path.Member("content"));
      case kAssistant: return ReadAssistantBlocks(content, path.Member("content"));
      case kSystem: return ReadSystemBlocks(content, path.Member("content"));
    }
    return false;
  }

  bool AddPlainTurn(Role role, std::string_view text) {
    std::vector<Message>& messages = context_.conversation().messages;
    if (role == kAssistant) {
      AssistantMessage message;
      message.content = text;
      messages.emplace_back(std::move(message));
    } else if (role == kUser) {
      UserMessage message;
      message.content.text = text;
      messages.emplace_back(std::move(message));
    } else {
      SystemMessage message;
      message.content.text = text;
      messages.emplace_back(std::move(message));
    }
    return true;
  }

  bool ReadBlock(JsonView value, const FieldPath& path, size_t index, Block* block) {
    block->path = path;
    block->index = index;
    if (!FieldValues::Read(value, path, kMessagesBlockFields, context_, &block->values)) return false;
    const auto type = ReadVariant(*block->values["type"], path.Member("type"), kBlockTypes, context_);
    if (!type.has_value()) return false;
    block->type = static_cast<BlockType>(*type);
    return true;
  }

  bool ReadUserBlocks(JsonView blocks, const FieldPath& path) {
    SystemMessage loads;
    size_t index = 0;
    for (const JsonView value : blocks.elements()) {
      const FieldPath block_path = path.Element(index);
      Block block;
      if (!ReadBlock(value, block_path, index++, &block)) return false;
      if (block.type == kToolResult) {
        if (!ReadResult(block, &loads.loaded_tools)) return false;
        continue;
      }
      if (Unanswered()) return RejectOpenCalls(Place() + ": ");
      if (!CheckRole(block, kUser)) return false;
      UserMessage message;
      ContentBuilder builder;
      if (!AddPart(block, fmt::format("{}.content[{}]", Place(), block.index), &builder)) return false;
      message.content = builder.Take();
      context_.conversation().messages.emplace_back(std::move(message));
    }
    if (Unanswered()) return RejectOpenCalls(fmt::format("messages.{}:", index_ - 1));
    open_calls_.clear();
    open_ids_.clear();
    answered_.clear();
    if (!loads.loaded_tools.empty()) context_.conversation().messages.emplace_back(std::move(loads));
    return true;
  }

  bool ReadSystemBlocks(JsonView blocks, const FieldPath& path) {
    SystemMessage message;
    ContentBuilder builder;
    size_t index = 0;
    for (const JsonView value : blocks.elements()) {
      const FieldPath block_path = path.Element(index);
      Block block;
      if (!ReadBlock(value, block_path, index++, &block) || !CheckRole(block, kSystem)) return false;
      if (block.type != kToolAddition) {
        if (!AddPart(block, Place(), &builder)) return false;
        continue;
      }
      const auto name = ReadReference(block);
      if (!name.has_value()) return false;
      if (!tool_names_.contains(*name)) {
        return context_.Reject(RejectKind::kToolSearch,
                               fmt::format("{}.content.{}: `tool_addition` references unknown tool '{}'",
                                           Place(), block.index, Shortened(*name)));
      }
      message.loaded_tools.emplace_back(*name);
    }
    message.content = builder.Take();
    context_.conversation().messages.emplace_back(std::move(message));
    return true;
  }

  std::optional<std::string_view> ReadReference(const Block& block) {
    static constexpr std::array<std::string_view, 1> kTypes = {"tool_reference"};
    const auto tool = block.values.Required("tool", FieldType::kObject, block.path, context_);
    if (!tool.has_value()) return std::nullopt;
    const FieldPath path = block.path.Member("tool");
    FieldValues values;
    if (!FieldValues::Read(*tool, path, kMessagesReferenceFields, context_, &values) ||
        !ReadVariant(*values["type"], path.Member("type"), kTypes, context_)) {
      return std::nullopt;
    }
    return values.Text("name");
  }

  bool ReadAssistantBlocks(JsonView blocks, const FieldPath& path) {
    AssistantMessage message;
    ContentBuilder texts;
    size_t index = 0;
    for (const JsonView value : blocks.elements()) {
      const FieldPath block_path = path.Element(index);
      Block block;
      if (!ReadBlock(value, block_path, index++, &block) || !CheckRole(block, kAssistant)) return false;
      if (block.type == kServerToolUse || block.type == kWebSearchToolResult) continue;
      bool read = false;
      if (block.type == kThinking) {
        read = ReadThought(block, &message);
      } else if (block.type == kToolUse) {
        read = ReadCall(block, &message);
      } else if (!open_calls_.empty()) {
        read = RejectOpenCalls(fmt::format("{}.{}: ", Place(), block.index));
      } else {
        read = AddPart(block, Place(), &texts);
      }
      if (!read) return false;
    }
    message.content = texts.Take().text;
    context_.conversation().messages.emplace_back(std::move(message));
    return true;
  }

  bool ReadThought(const Block& block, AssistantMessage* message) {
    const auto thinking = block.values.Required("thinking", FieldType::kString, block.path, context_);
    if (!thinking.has_value() || !block.values.Check("signature", FieldType::kString, block.path, context_)) {
      return false;
    }
    if (message->reasoning.has_value()) {
      *message->reasoning += "\n\n";
    } else {
      message->reasoning.emplace();
    }
    *message->reasoning += thinking->AsString();
    return true;
  }

  bool ReadCall(const Block& block, AssistantMessage* message) {
    const auto id = block.values.Required("id", FieldType::kString, block.path, context_);
    if (!id.has_value()) return false;
    const auto name = block.values.Required("name", FieldType::kString, block.path, context_);
    if (!name.has_value()) return false;
    const auto input = block.values.Required("input", FieldType::kAny, block.path, context_);
    if (!input.has_value()) return false;
    if (!open_ids_.insert(id->AsString()).second) {
      return context_.Reject(
          RejectKind::kToolHistory,
          fmt::format("{}.content.{}: `tool_use` ids must be unique", Place(), block.index));
    }
    open_calls_.push_back(id->AsString());
    ToolCall call{std::string(id->AsString()), std::string(name->AsString()), {}};
    AppendPythonJson(*input, NumberStyle::kRecipe, &call.arguments);
    message->tool_calls.push_back(std::move(call));
    return true;
  }

  bool ReadResult(const Block& block, std::vector<std::string>* loaded_tools) {
    const auto id = block.values.Required("tool_use_id", FieldType::kString, block.path, context_);
    if (!id.has_value()) return false;
    if (!open_ids_.contains(id->AsString())) {
      return context_.Reject(
          RejectKind::kToolHistory,
          fmt::format("unexpected `{}.content.{}: tool_use_id` found in `tool_result` blocks: {}. Each "
                      "`tool_result` block must have a corresponding `tool_use` block in the previous "
                      "message.",
                      Place(), block.index, Shortened(id->AsString())));
    }
    if (!answered_.insert(id->AsString()).second) {
      return context_.Reject(
          RejectKind::kToolHistory,
          fmt::format("{}.content.{}: each tool_use must have a single result. Found multiple "
                      "`tool_result` blocks with id: {}",
                      Place(), block.index, Shortened(id->AsString())));
    }
    ToolMessage message;
    message.tool_call_id = id->AsString();
    if (!ReadResultContent(block, &message.content, loaded_tools)) return false;
    context_.conversation().messages.emplace_back(std::move(message));
    return true;
  }

  bool ReadResultContent(const Block& block, Content* content, std::vector<std::string>* loaded_tools) {
    if (!block.values.Check("content", FieldType::kStringOrArray, block.path, context_) ||
        !block.values.Check("is_error", FieldType::kBool, block.path, context_)) {
      return false;
    }
    const auto value = block.values["content"];
    if (!value.has_value()) return true;
    if (value->is_string()) {
      content->text = value->AsString();
      return true;
    }
    const FieldPath path = block.path.Member("content");
    ContentBuilder builder;
    size_t index = 0;
    for (const JsonView part : value->elements()) {
      if (!ReadResultPart(part, path.Element(index++), block.index, &builder, loaded_tools)) return false;
    }
    *content = builder.Take();
    return true;
  }

  bool ReadResultPart(JsonView value, const FieldPath& path, size_t block_index, ContentBuilder* builder,
                      std::vector<std::string>* loaded_tools) {
    static constexpr std::array<std::string_view, 4> kTypes = {"text", "image", "document", "tool_reference"};
    Block part;
    part.path = path;
    if (!FieldValues::Read(value, path, kMessagesBlockFields, context_, &part.values)) return false;
    const auto type = ReadVariant(*part.values["type"], path.Member("type"), kTypes, context_);
    if (!type.has_value()) return false;
    if (kTypes[*type] != "tool_reference") {
      part.type = static_cast<BlockType>(*type);
      return AddPart(part, fmt::format("{}.content.{}.tool_result", Place(), block_index), builder);
    }
    const auto name = part.values.Required("tool_name", FieldType::kString, path, context_);
    if (!name.has_value()) return false;
    if (!tool_names_.contains(name->AsString())) {
      return context_.Reject(RejectKind::kToolSearch,
                             fmt::format("{}.content.{}: tool reference '{}' not found in available "
                                         "tools",
                                         Place(), block_index, Shortened(name->AsString())));
    }
    loaded_tools->emplace_back(name->AsString());
    builder->AddText(name->AsString());
    return true;
  }

  // Blocks that a message of this role must not hold.
  bool CheckRole(const Block& block, Role role) {
    const auto only_in = [&](std::string_view what, std::string_view where) {
      return context_.Reject(
          RejectKind::kBlockRole,
          fmt::format("{}: `{}` blocks can only be in `{}` messages", Place(), what, where));
    };
    const bool assistant = role == kAssistant;
    switch (block.type) {
      case kText:
      case kDocument: return true;
      case kImage:
        return !assistant || context_.Reject(RejectKind::kImage, "Image in assistant message is unsupported");
      case kThinking:
        return assistant ||
               context_.Reject(RejectKind::kBlockRole,
                               Place() + ".content: thinking blocks may only be in `assistant` messages");
      case kToolUse: return assistant || only_in("tool_use", "assistant");
      case kServerToolUse:
      case kWebSearchToolResult:
        if (!assistant)
          return only_in(block.type == kServerToolUse ? "tool_use" : "web_search_tool_result", "assistant");
        return context_.options.messages_web_search == RequestOptions::WebSearch::kDrop ||
               context_.Reject(RejectKind::kServerTool,
                               "Unsupported content block: server tools are not supported");
      case kToolResult: return only_in("tool_result", "user");
      case kToolAddition: return role == kSystem || only_in("tool_addition", "system");
    }
    return false;
  }

  // Texts, images and documents. `place` is where messages say that an image stands.
  bool AddPart(const Block& block, const std::string& place, ContentBuilder* builder) {
    if (block.type == kText) {
      const auto text = block.values.Required("text", FieldType::kString, block.path, context_);
      if (!text.has_value()) return false;
      builder->AddText(text->AsString());
      return true;
    }
    const auto source = block.values.Required("source", FieldType::kObject, block.path, context_);
    if (!source.has_value()) return false;
    const FieldPath path = block.path.Member("source");
    FieldValues values;
    if (!FieldValues::Read(*source, path, kMessagesSourceFields, context_, &values)) return false;
    if (block.type == kDocument) {
      if (!values.Check("media_type", FieldType::kString, path, context_)) return false;
      const std::string_view type = values["media_type"].has_value() ? values.Text("media_type") : "unknown";
      builder->AddText(fmt::format("[Unsupported document type: {}]", type));
      return true;
    }
    auto image = ReadImage(values, path, place);
    if (!image.has_value()) return false;
    builder->AddImage(*std::move(image));
    return true;
  }

  std::optional<ImageSource> ReadImage(const FieldValues& values, const FieldPath& path,
                                       const std::string& place) {
    static constexpr std::array<std::string_view, 3> kTypes = {"base64", "url", "file"};
    const auto type_value = values.Required("type", FieldType::kString, path, context_);
    if (!type_value.has_value()) return std::nullopt;
    const auto type = ReadVariant(*type_value, path.Member("type"), kTypes, context_);
    if (!type.has_value()) return std::nullopt;
    if (kTypes[*type] == "base64") return ReadBase64Image(values, path, place);
    const auto reject = [&](const std::string& what) {
      context_.Reject(RejectKind::kImage, fmt::format("{}: {}", place, what));
      return std::nullopt;
    };
    if (kTypes[*type] == "file") {
      return reject("file_id is not supported. Pass the image as a base64 data url instead.");
    }
    const auto url = values.Required("url", FieldType::kString, path, context_);
    if (!url.has_value()) return std::nullopt;
    if (!IsHttpUrl(url->AsString())) {
      std::string quoted;
      json::AppendQuoted(Shortened(url->AsString()), &quoted);
      return reject("invalid url: " + quoted);
    }
    if (!CheckLinkLength(url->AsString(), place, "", context_)) return std::nullopt;
    return ImageSource{ImageSource::Kind::kUrl, std::string(url->AsString()), ImageSource::Detail::kHigh,
                       place};
  }

  std::optional<ImageSource> ReadBase64Image(const FieldValues& values, const FieldPath& path,
                                             const std::string& place) {
    static constexpr std::array<std::string_view, 5> kTypes = {"image/jpeg", "image/jpg", "image/png",
                                                               "image/gif", "image/webp"};
    const auto media_type = values.Required("media_type", FieldType::kString, path, context_);
    if (!media_type.has_value()) return std::nullopt;
    const auto type = ReadVariant(*media_type, path.Member("media_type"), kTypes, context_);
    if (!type.has_value()) return std::nullopt;
    const auto data = values.Required("data", FieldType::kString, path, context_);
    if (!data.has_value()) return std::nullopt;
    const auto base64 = CanonicalBase64(data->AsString());
    if (!base64.has_value()) {
      context_.Reject(RejectKind::kImage, place + ": base64 decode error");
      return std::nullopt;
    }
    const std::string_view name = kTypes[*type] == "image/jpg" ? "image/jpeg" : kTypes[*type];
    return ImageSource{ImageSource::Kind::kDataUrl, fmt::format("data:{};base64,{}", name, *base64),
                       ImageSource::Detail::kHigh, place};
  }

  bool Unanswered() const { return answered_.size() < open_calls_.size(); }

  bool RejectOpenCalls(const std::string& place) {
    std::string ids;
    for (const std::string_view id : open_calls_) {
      if (answered_.contains(id)) continue;
      if (!ids.empty()) ids += ", ";
      ids += id;
    }
    return context_.Reject(RejectKind::kToolHistory,
                           place + fmt::format(fmt::runtime(kResultMissing), Shortened(ids)));
  }

  // As the library writes it.
  std::string Place() const { return fmt::format("messages.{}", index_); }

  RequestContext& context_;
  size_t index_ = 0;
  std::unordered_set<std::string_view> tool_names_;
  // Calls of the last assistant turn, in order and as a set, and those that have a result.
  std::vector<std::string_view> open_calls_;
  std::unordered_set<std::string_view> open_ids_;
  std::unordered_set<std::string_view> answered_;
};

}  // namespace

bool ReadMessagesTurns(JsonView messages, const FieldPath& path, RequestContext& context) {
  return TurnReader(context).Read(messages, path);
}

}  // namespace deepinfer::recipe
