// The arguments of one command: parsed by the option tables and checked against their ranges.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cli/option_spec.h"

namespace deepinfer::cli {

/// Options by name and positional arguments. The getters may be asked for options of the command's table only; numbers have been
/// checked, so that reading them cannot fail.
class Arguments {
 public:
  bool Has(std::string_view option) const { return values_.contains(option); }
  /// Last value given, or `fallback`.
  std::string Text(std::string_view option, std::string_view fallback = {}) const;
  int64_t Integer(std::string_view option, int64_t fallback) const;
  uint64_t Unsigned(std::string_view option, uint64_t fallback) const;
  double Real(std::string_view option, double fallback) const;
  /// Every value of a repeated option, in order.
  const std::vector<std::string>& All(std::string_view option) const;

  const std::vector<std::string>& positionals() const { return positionals_; }

 private:
  friend Result<Arguments> ParseArguments(const CommandSpec& spec, const std::vector<std::string>& args);
  std::map<std::string, std::vector<std::string>, std::less<>> values_;
  std::vector<std::string> positionals_;
};

/// Parses the words after the command's name. `--name=value` and `--name value` are the same; `--` ends the options. Errors:
/// kInvalidArgument naming the option, the allowed range, and for an unknown one the nearest spelling.
Result<Arguments> ParseArguments(const CommandSpec& spec, const std::vector<std::string>& args);

/// Strict number texts: the whole of `text`, no blanks, no sign for unsigned ones.
bool ParseInteger(std::string_view text, int64_t* out);
bool ParseUnsigned(std::string_view text, uint64_t* out);
bool ParseReal(std::string_view text, double* out);

/// "0,17,4085" to ids; blanks and line ends between them are allowed. Errors: kInvalidArgument with the text that is no id.
Result<std::vector<int32_t>> ParseIds(std::string_view text, std::string_view where);

}  // namespace deepinfer::cli
