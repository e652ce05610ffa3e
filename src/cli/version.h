// What this program is, fixed when it was built.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace deepinfer::cli {

/// "0.1.0".
std::string_view VersionNumber();

/// Answer of `--version` for people, without the final line end.
std::string VersionText();
/// The same as {"version","commit","build_type","compiler","kernel_target","cuda"}.
json::Value VersionObject();

}  // namespace deepinfer::cli
