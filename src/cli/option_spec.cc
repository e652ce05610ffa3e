#include "cli/option_spec.h"

#include <cmath>

#include <fmt/format.h>

namespace deepinfer::cli {
namespace {

std::string NumberText(double value, bool integer) {
  return integer ? fmt::format("{}", static_cast<int64_t>(value)) : fmt::format("{}", value);
}

std::string IntervalText(const OptionSpec& option, bool integer) {
  const std::string what = integer ? "an integer" : "a number";
  const bool low = std::isfinite(option.min), high = std::isfinite(option.max);
  if (low && high) {
    if (integer)
      return fmt::format("{} from {} to {}", what, NumberText(option.min, true),
                         NumberText(option.max, true));
    return fmt::format("{} in {}{}, {}]", what, option.min_excluded ? '(' : '[',
                       NumberText(option.min, false), NumberText(option.max, false));
  }
  if (low)
    return fmt::format("{} {} {}", what, option.min_excluded ? "above" : "of at least",
                       NumberText(option.min, integer));
  return what;
}

}  // namespace

const OptionSpec* CommandSpec::Find(std::string_view option) const {
  for (const OptionGroup& group : groups) {
    for (const OptionSpec& spec : group.options) {
      if (spec.name == option || (!spec.short_name.empty() && spec.short_name == option)) return &spec;
    }
  }
  return nullptr;
}

std::string RangeText(const OptionSpec& option) {
  switch (option.kind) {
    case ValueKind::kInteger: return IntervalText(option, true);
    case ValueKind::kUnsigned: return "an integer from 0 to 18446744073709551615";
    case ValueKind::kReal: return IntervalText(option, false);
    case ValueKind::kChoice: return fmt::format("one of {}", fmt::join(option.choices, ", "));
    case ValueKind::kFlag:
    case ValueKind::kText:
    case ValueKind::kFile:
    case ValueKind::kFolder: return {};
  }
  return {};
}

}  // namespace deepinfer::cli
