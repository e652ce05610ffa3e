#include "recipe/regex_syntax.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <memory>

#include <fmt/format.h>

namespace deepinfer::recipe {

std::optional<std::string> CheckRegex(std::string_view pattern) {
  constexpr size_t kLongest = size_t{64} << 10;
  constexpr uint32_t kDeepestGroup = 100;
  if (pattern.size() > kLongest) return fmt::format("longer than {} bytes", kLongest);
  const std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
      pcre2_compile_context_create(nullptr), &pcre2_compile_context_free);
  if (context == nullptr) return "out of memory";
  pcre2_set_parens_nest_limit(context.get(), kDeepestGroup);
  pcre2_set_compile_extra_options(context.get(), PCRE2_EXTRA_ALT_BSUX);  // \u{41} as in JavaScript
  int code = 0;
  size_t offset = 0;
  const std::unique_ptr<pcre2_code, decltype(&pcre2_code_free)> compiled(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_ALT_BSUX, &code, &offset, context.get()),
      &pcre2_code_free);
  if (compiled != nullptr) return std::nullopt;
  unsigned char text[256] = {};
  pcre2_get_error_message(code, text, sizeof(text));
  return fmt::format("{} at offset {}", reinterpret_cast<const char*>(text), offset);
}

}  // namespace deepinfer::recipe
