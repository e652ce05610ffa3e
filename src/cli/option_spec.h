// The option tables: what a command accepts, described once. Parsing, help texts, the man page and shell completion all read them
// (spec: cli.md §2, last line).
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace deepinfer::cli {

/// What the value of an option is. Decides how it is checked and what a shell offers after it.
enum class ValueKind : uint8_t {
  kFlag,      // no value
  kText,      // anything
  kInteger,   // int64_t within [min, max]
  kUnsigned,  // uint64_t, the whole range
  kReal,      // double within [min, max]
  kChoice,    // one of `choices`
  kFile,
  kFolder,
};

/// One option.
struct OptionSpec {
  std::string name = {};        // "--top-p"
  std::string short_name = {};  // "-o", or empty
  ValueKind kind = ValueKind::kFlag;
  std::string value = {};  // placeholder in help texts: "N"
  std::string help = {};   // what it does, with default and unit; no final full stop
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool min_excluded = false;
  std::vector<std::string> choices = {};
  bool repeated = false;        // may be given several times
  bool optional_value = false;  // `--tensors` and `--tensors=GLOB` are both allowed
};

/// Options under one heading of the help text.
struct OptionGroup {
  std::string title = {};
  std::vector<OptionSpec> options = {};
};

/// A positional argument; help texts show it as `[NAME]` or `NAME`.
struct PositionalSpec {
  std::string name = {};
  ValueKind kind = ValueKind::kText;
  std::string help = {};
  bool required = false;
};

/// One command as people see it.
struct CommandSpec {
  std::string name = {};
  std::string summary = {};  // half a sentence, lower case
  std::vector<PositionalSpec> positionals = {};
  std::string description = {};  // paragraphs for the help text; may be empty
  std::string example = {};      // one command line
  std::string example_note = {};
  std::vector<std::string> see_also = {};  // related commands
  std::vector<OptionGroup> groups = {};
  size_t max_positionals = 0;

  const OptionSpec* Find(std::string_view option) const;
};

/// The allowed values of an option for messages and help texts: "a number in (0, 1]"; empty for texts and flags.
std::string RangeText(const OptionSpec& option);

}  // namespace deepinfer::cli
