#include "recipe/request_content.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace deepinfer::recipe {
namespace {

constexpr std::string_view kUnsupportedUrl = "Unsupported image_url format";

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

bool EqualsIgnoringCase(std::string_view text, std::string_view lower) {
  return std::equal(text.begin(), text.end(), lower.begin(), lower.end(),
                    [](char a, char b) { return Lower(a) == b; });
}

bool IsAsciiSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\f' || c == '\r'; }

// Six bits, or one of these.
constexpr uint8_t kNotBase64 = 0xFF;
constexpr uint8_t kBlank = 0xFE;

constexpr std::array<uint8_t, 256> MakeBase64Table() {
  std::array<uint8_t, 256> table{};
  table.fill(kNotBase64);
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < kAlphabet.size(); ++i)
    table[static_cast<unsigned char>(kAlphabet[i])] = static_cast<uint8_t>(i);
  for (const char c : {' ', '\t', '\n', '\f', '\r'}) table[static_cast<unsigned char>(c)] = kBlank;
  return table;
}
constexpr std::array<uint8_t, 256> kBase64 = MakeBase64Table();

uint8_t Sextet(char c) { return kBase64[static_cast<unsigned char>(c)]; }

// As browsers read `data:` URLs: white space counts for nothing, padding may be missing but must not be wrong.
bool IsForgivingBase64(std::string_view text) {
  size_t symbols = 0;
  size_t padding = 0;
  for (const char c : text) {
    const uint8_t sextet = Sextet(c);
    if (sextet == kBlank) continue;
    if (c == '=') {
      if (++padding > 2) return false;
      continue;
    }
    if (sextet == kNotBase64 || padding > 0) return false;
    ++symbols;
  }
  if (symbols % 4 == 1) return false;
  return padding == 0 || (symbols + padding) % 4 == 0;
}

// "data:image/png;base64,…": where the payload begins, or nothing.
struct DataUrl {
  std::string_view media_type;
  std::string_view payload;
};
std::optional<DataUrl> SplitDataUrl(std::string_view url) {
  while (!url.empty() && IsAsciiSpace(url.front())) url.remove_prefix(1);
  constexpr std::string_view kScheme = "data:";
  if (!EqualsIgnoringCase(url.substr(0, kScheme.size()), kScheme)) return std::nullopt;
  url.remove_prefix(kScheme.size());
  const size_t comma = url.find(',');
  if (comma == std::string_view::npos) return std::nullopt;
  std::string_view head = url.substr(0, comma);
  constexpr std::string_view kEncoding = "base64";
  if (!head.ends_with(kEncoding)) return std::nullopt;
  head.remove_suffix(kEncoding.size());
  while (head.ends_with(' ')) head.remove_suffix(1);
  if (!head.ends_with(';')) return std::nullopt;
  return DataUrl{head.substr(0, head.find(';')), url.substr(comma + 1)};
}

bool IsImageType(std::string_view media_type) {
  constexpr std::array<std::string_view, 5> kTypes = {"image/jpeg", "image/jpg", "image/png", "image/gif",
                                                      "image/webp"};
  return std::any_of(kTypes.begin(), kTypes.end(),
                     [&](std::string_view type) { return EqualsIgnoringCase(media_type, type); });
}

}  // namespace

void ContentBuilder::Separate() {
  if (!first_) content_.text += "\n\n";
  first_ = false;
}

void ContentBuilder::AddText(std::string_view text) {
  Separate();
  content_.text += text;
}

void ContentBuilder::AddImage(ImageSource image) {
  Separate();
  content_.images.push_back({content_.text.size(), std::move(image)});
}

bool IsHttpUrl(std::string_view url) { return EqualsIgnoringCase(url.substr(0, 4), "http"); }

bool CheckLinkLength(std::string_view url, std::string_view path, std::string_view what,
                     RequestContext& context) {
  constexpr size_t kLongest = 8192;
  if (url.size() <= kLongest) return true;
  return context.Reject(
      RejectKind::kImage,
      fmt::format("{}: {}external link length {} too long, max link length {}. Consider passing file data "
                  "directly with base64 data url instead.",
                  path, what, url.size(), kLongest));
}

std::optional<ImageSource> ReadImageUrl(std::string_view url, ImageSource::Detail detail,
                                        const ImagePlace& place, RequestContext& context) {
  const auto reject = [&](std::string_view what) {
    context.Reject(RejectKind::kImage, fmt::format("{}: {}", place.path, what));
    return std::nullopt;
  };
  if (!place.is_file && IsHttpUrl(url)) {
    if (!CheckLinkLength(url, place.link_path, place.link, context)) return std::nullopt;
    return ImageSource{ImageSource::Kind::kUrl, std::string(url), detail, place.path};
  }
  const auto data = SplitDataUrl(url);
  if (!data.has_value())
    return reject(place.is_file ? "file_data is not a valid base64 data url" : kUnsupportedUrl);
  if (!IsImageType(data->media_type)) {
    return reject(fmt::format(
        "You have uploaded an unsupported {0}. Please make sure your {0} is valid and has one of the "
        "following formats: webp, png, jpeg, and gif.",
        place.is_file ? "file" : "image"));
  }
  if (!IsForgivingBase64(data->payload)) return reject("Invalid base64 data");
  return ImageSource{ImageSource::Kind::kDataUrl, std::string(url), detail, place.path};
}

std::optional<ImageSource::Detail> ReadImageDetail(const FieldValues& values, const FieldPath& path,
                                                   RequestContext& context) {
  static constexpr std::array<std::string_view, 4> kNames = {"low", "high", "original", "auto"};
  const auto value = values["detail"];
  if (!value.has_value()) return ImageSource::Detail::kHigh;
  const auto name = ReadVariant(*value, path.Member("detail"), kNames, context);
  if (!name.has_value()) return std::nullopt;
  return static_cast<ImageSource::Detail>(*name);
}

std::optional<std::string> CanonicalBase64(std::string_view text) {
  const bool padded = text.ends_with('=');
  std::string_view symbols = text;
  while (symbols.ends_with('=')) symbols.remove_suffix(1);
  const size_t rest = symbols.size() % 4;
  if (rest == 1 || (rest != 0 && !padded)) return std::nullopt;
  for (const char c : symbols) {
    if (Sextet(c) >= kBlank) return std::nullopt;
  }
  // The bits behind the last byte are zero.
  if (rest == 2 && (Sextet(symbols.back()) & 0x0FU) != 0) return std::nullopt;
  if (rest == 3 && (Sextet(symbols.back()) & 0x03U) != 0) return std::nullopt;
  std::string canonical(symbols);
  if (rest != 0) canonical.append(4 - rest, '=');
  return canonical;
}

}  // namespace deepinfer::recipe
