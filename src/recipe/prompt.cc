#include "recipe/prompt.h"

#include <fmt/format.h>

#include "recipe/prompt_writer.h"

namespace deepinfer::recipe {
namespace {

constexpr std::string_view kProfileNames[] = {"recipe", "checkpoint", "v4"};

size_t CountCodePoints(std::string_view utf8) {
  size_t count = 0;
  for (const char c : utf8) count += (static_cast<uint8_t>(c) & 0xC0) != 0x80 ? 1 : 0;
  return count;
}

}  // namespace

std::string_view PromptProfileName(PromptProfile profile) {
  return kProfileNames[static_cast<size_t>(profile)];
}

std::optional<PromptProfile> FindPromptProfile(std::string_view name) {
  for (const auto profile : {PromptProfile::kRecipe, PromptProfile::kCheckpoint, PromptProfile::kV4}) {
    if (PromptProfileName(profile) == name) return profile;
  }
  return std::nullopt;
}

Result<Prompt> RenderPrompt(const Conversation& conversation, const PromptOptions& options) {
  if (options.profile == PromptProfile::kCheckpoint) {
    return internal::RenderCheckpoint(conversation, options.history_thinking);
  }
  return internal::RenderRecipe(conversation, options);
}

Prompt RenderCompletion(std::string_view prompt, std::optional<std::string_view> suffix) {
  internal::PromptWriter writer(PromptProfile::kRecipe);
  writer.Token(TokenRole::kBos);
  if (suffix) writer.Token(TokenRole::kFimBegin);
  writer.Text(prompt);
  if (suffix) {
    writer.Token(TokenRole::kFimHole);
    writer.Text(*suffix);
    writer.Token(TokenRole::kFimEnd);
  }
  return std::move(writer).Take();
}

Result<std::vector<int32_t>> EncodePrompt(const Prompt& prompt, const Tokenizer& tokenizer,
                                          size_t max_tokens) {
  std::vector<TokenSpan> tokens;
  tokens.reserve(prompt.special.size());
  for (const Prompt::Special& special : prompt.special) {
    const std::optional<int32_t> id = tokenizer.RoleId(special.role);
    if (!id) {
      return InvalidArgument(fmt::format("the vocabulary has no token {}", TokenRoleText(special.role)),
                             "tokenizer.json");
    }
    tokens.push_back({special.begin, special.end, *id});
  }
  EncodeOptions options;
  options.max_tokens = max_tokens;
  return tokenizer.EncodeWithTokens(prompt.text, tokens, options);
}

std::vector<std::pair<size_t, size_t>> SpecialCodePoints(const Prompt& prompt) {
  std::vector<std::pair<size_t, size_t>> ranges;
  ranges.reserve(prompt.special.size());
  const std::string_view text = prompt.text;
  size_t bytes = 0, code_points = 0;
  const auto advance_to = [&](size_t offset) {
    code_points += CountCodePoints(text.substr(bytes, offset - bytes));
    bytes = offset;
    return code_points;
  };
  for (const Prompt::Special& special : prompt.special) {
    const size_t begin = advance_to(special.begin);
    ranges.emplace_back(begin, advance_to(special.end));
  }
  return ranges;
}

}  // namespace deepinfer::recipe
