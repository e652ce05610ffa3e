#include "cli/arguments.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/suggest.h"

namespace deepinfer::cli {
namespace {

template <typename T>
bool ParseWhole(std::string_view text, T* out) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *out);
  return error == std::errc() && stop == end && !text.empty();
}

Status BadValue(const OptionSpec& option, std::string_view value) {
  return InvalidArgument(fmt::format("{} must be {}, not \"{}\"", option.name, RangeText(option), value),
                         option.name);
}

bool InRange(const OptionSpec& option, double value) {
  if (std::isnan(value)) return false;
  return (option.min_excluded ? value > option.min : value >= option.min) && value <= option.max;
}

Status CheckValue(const OptionSpec& option, const std::string& value) {
  switch (option.kind) {
    case ValueKind::kInteger: {
      int64_t number = 0;
      if (!ParseInteger(value, &number) || !InRange(option, static_cast<double>(number)))
        return BadValue(option, value);
      return OkStatus();
    }
    case ValueKind::kUnsigned: {
      uint64_t number = 0;
      return ParseUnsigned(value, &number) ? OkStatus() : BadValue(option, value);
    }
    case ValueKind::kReal: {
      double number = 0;
      if (!ParseReal(value, &number) || !InRange(option, number)) return BadValue(option, value);
      return OkStatus();
    }
    case ValueKind::kChoice: {
      if (std::find(option.choices.begin(), option.choices.end(), value) != option.choices.end())
        return OkStatus();
      const std::string nearest = Nearest(value, option.choices);
      Status status = BadValue(option, value);
      if (nearest.empty()) return status;
      return std::move(status).WithHint(fmt::format("{} {}", option.name, nearest));
    }
    case ValueKind::kFlag:
    case ValueKind::kText:
    case ValueKind::kFile:
    case ValueKind::kFolder: return OkStatus();
  }
  return OkStatus();
}

Status UnknownOption(const CommandSpec& spec, std::string word) {
  word = word.substr(0, word.find('='));
  std::vector<std::string> names;
  for (const OptionGroup& group : spec.groups) {
    for (const OptionSpec& option : group.options) names.push_back(option.name);
  }
  const std::string nearest = word.starts_with("--") ? Nearest(word, names) : std::string();
  if (!nearest.empty()) {
    return InvalidArgument(fmt::format("unknown option {}; did you mean {}?", word, nearest), spec.name)
        .WithHint(nearest);
  }
  Status status = InvalidArgument(fmt::format("unknown option {}", word), spec.name);
  if (word.starts_with("--"))
    return std::move(status).WithHint(fmt::format("deepinfer {} --help", spec.name));
  return std::move(status).WithHint(
      fmt::format("deepinfer {} -- \"{}\" when it is a text that begins with a dash", spec.name, word));
}

// The command-line lexer sees every option as a list of texts; types and ranges are ours, so that messages are too.
struct Lexed {
  const OptionSpec* spec = nullptr;
  std::vector<std::string> values;
  size_t count = 0;
  CLI::Option* option = nullptr;
};

void Register(CLI::App* app, Lexed* lexed) {
  const OptionSpec& spec = *lexed->spec;
  std::string names = spec.short_name.empty() ? spec.name : spec.short_name + "," + spec.name;
  if (spec.kind == ValueKind::kFlag) {
    lexed->option = app->add_flag(names, lexed->count, spec.help)->disable_flag_override();
    return;
  }
  lexed->option = app->add_option(names, lexed->values, spec.help);
  lexed->option->expected(1)->take_all()->allow_extra_args(false);
}

Status TooMany(const CommandSpec& spec, const std::string& last) {
  const std::string most = spec.max_positionals == 0 ? "no arguments"
                           : spec.max_positionals == 1
                               ? "one argument"
                               : fmt::format("at most {} arguments", spec.max_positionals);
  return InvalidArgument(fmt::format("{} takes {}", spec.name, most), last)
      .WithHint(fmt::format("quotes around a text with blanks, or deepinfer {} --help", spec.name));
}

Status MissingValue(const CommandSpec& spec, const std::string& message) {
  // The lexer's message begins with the option's name, of flags without the dashes.
  const std::string name = message.substr(0, message.find_first_of(": "));
  const OptionSpec* option = spec.Find(name.starts_with("-") ? name : "--" + name);
  if (option == nullptr) return InvalidArgument(message, spec.name);
  if (option->kind == ValueKind::kFlag)
    return InvalidArgument(fmt::format("{} takes no value", option->name), option->name)
        .WithHint(option->name);
  const std::string range = RangeText(*option);
  return InvalidArgument(fmt::format("{} needs a value{}{}", option->name, range.empty() ? "" : ": ", range),
                         option->name)
      .WithHint(fmt::format("{} {}", option->name, option->value));
}

// Options whose value may be left out are lexed as `--name=VALUE` only.
std::vector<std::string> FillOptionalValues(const CommandSpec& spec, const std::vector<std::string>& args) {
  std::vector<std::string> filled;
  bool options_ended = false;
  for (const std::string& word : args) {
    options_ended = options_ended || word == "--";
    const OptionSpec* option = options_ended ? nullptr : spec.Find(word);
    filled.push_back(option != nullptr && option->optional_value ? word + "=*" : word);
  }
  return filled;
}

}  // namespace

bool ParseInteger(std::string_view text, int64_t* out) { return ParseWhole(text, out); }
bool ParseUnsigned(std::string_view text, uint64_t* out) { return ParseWhole(text, out); }
bool ParseReal(std::string_view text, double* out) {
  if (!ParseWhole(text, out)) return false;
  return std::isfinite(*out);
}

Result<std::vector<int32_t>> ParseIds(std::string_view text, std::string_view where) {
  constexpr std::string_view kBetween = " \t\r\n,";
  std::vector<int32_t> ids;
  size_t at = text.find_first_not_of(kBetween);
  while (at != std::string_view::npos) {
    const size_t end = std::min(text.find_first_of(kBetween, at), text.size());
    const std::string_view word = text.substr(at, end - at);
    int64_t id = 0;
    if (!ParseInteger(word, &id) || id < 0 || id > std::numeric_limits<int32_t>::max()) {
      return InvalidArgument(fmt::format("\"{}\" is no token id", word.substr(0, 40)), std::string(where))
          .WithHint("ids as 0,17,4085");
    }
    ids.push_back(static_cast<int32_t>(id));
    at = text.find_first_not_of(kBetween, end);
  }
  return ids;
}

std::string Arguments::Text(std::string_view option, std::string_view fallback) const {
  const auto it = values_.find(option);
  return it == values_.end() || it->second.empty() ? std::string(fallback) : it->second.back();
}

int64_t Arguments::Integer(std::string_view option, int64_t fallback) const {
  int64_t value = fallback;
  if (Has(option)) ParseInteger(Text(option), &value);
  return value;
}

uint64_t Arguments::Unsigned(std::string_view option, uint64_t fallback) const {
  uint64_t value = fallback;
  if (Has(option)) ParseUnsigned(Text(option), &value);
  return value;
}

double Arguments::Real(std::string_view option, double fallback) const {
  double value = fallback;
  if (Has(option)) ParseReal(Text(option), &value);
  return value;
}

const std::vector<std::string>& Arguments::All(std::string_view option) const {
  static const std::vector<std::string> kNone;
  const auto it = values_.find(option);
  return it == values_.end() ? kNone : it->second;
}

Result<Arguments> ParseArguments(const CommandSpec& spec, const std::vector<std::string>& args) {
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  std::vector<Lexed> lexed;
  for (const OptionGroup& group : spec.groups) {
    for (const OptionSpec& option : group.options)
      lexed.push_back({.spec = &option, .values = {}, .count = 0, .option = nullptr});
  }
  for (Lexed& one : lexed) Register(&app, &one);
  Arguments result;
  std::vector<std::string> reversed = FillOptionalValues(spec, args);
  // The positionals are what the lexer leaves over, split at `--` by hand: there a leading dash is no option.
  const auto dashes = std::find(reversed.begin(), reversed.end(), "--");
  std::vector<std::string> verbatim;
  if (dashes != reversed.end()) {
    verbatim.assign(dashes + 1, reversed.end());
    reversed.erase(dashes, reversed.end());
  }
  std::reverse(reversed.begin(), reversed.end());
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    return MissingValue(spec, error.what());
  }
  for (const std::string& word : app.remaining()) {
    if (word.size() > 1 && word.front() == '-') return UnknownOption(spec, word);
    result.positionals_.push_back(word);
  }
  result.positionals_.insert(result.positionals_.end(), verbatim.begin(), verbatim.end());
  if (result.positionals_.size() > spec.max_positionals) return TooMany(spec, result.positionals_.back());
  for (Lexed& one : lexed) {
    if (one.option->count() == 0) continue;
    for (const std::string& value : one.values) DEEPINFER_RETURN_IF_ERROR(CheckValue(*one.spec, value));
    result.values_[one.spec->name] = std::move(one.values);
  }
  return result;
}

}  // namespace deepinfer::cli
