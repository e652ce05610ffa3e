// Texts and images of a message (spec: recipe.md §3.8, §8.6).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "recipe/conversation.h"
#include "recipe/request_context.h"

namespace deepinfer::recipe {

/// Puts the parts of a message together: an empty line stands between two parts, empty ones too.
class ContentBuilder {
 public:
  void AddText(std::string_view text);
  void AddImage(ImageSource image);
  Content Take() { return std::move(content_); }

 private:
  void Separate();
  Content content_;
  bool first_ = true;
};

/// The texts of an image's errors differ from protocol to protocol.
struct ImagePlace {
  std::string path;       // where the image's message stands, as the library writes it
  std::string link_path;  // where the link itself stands
  std::string_view link;  // what the link is called, with a blank behind it, or empty
  bool is_file = false;   // Chat's part `file`
};

/// `image_url` of Chat and Responses: an http(s) URL, or a `data:` URL of a known image type with sound base64. Nothing after a
/// Reject.
std::optional<ImageSource> ReadImageUrl(std::string_view url, ImageSource::Detail detail,
                                        const ImagePlace& place, RequestContext& context);

/// low, high, original, auto; nothing after a Reject.
std::optional<ImageSource::Detail> ReadImageDetail(const FieldValues& values, const FieldPath& path,
                                                   RequestContext& context);

/// Rejects a URL that starts with http and is longer than the limit. `what` ends with a blank or is empty.
bool CheckLinkLength(std::string_view url, std::string_view path, std::string_view what,
                     RequestContext& context);

/// Strict base64 with padding; wrong padding is repaired where there is some (spec: recipe.md §8.6). Nothing when it is unsound.
std::optional<std::string> CanonicalBase64(std::string_view text);

/// "http…" in any case.
bool IsHttpUrl(std::string_view url);

}  // namespace deepinfer::recipe
