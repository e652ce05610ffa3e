// Paths inside a model folder. Internal to the checkpoint module.
#pragma once

#include <string>
#include <string_view>
#include <system_error>

#include "base/status.h"

namespace deepinfer {

/// Canonical path of the regular file `relative` (no `..`, not absolute) below `dir`. A link may lead to another place below `dir` or
/// below `allowed_root` (empty: none), nowhere else. Errors: kNotFound, kIo, kDataLoss (leaves the folder, leads to nothing, or is a
/// folder, FIFO or device).
Result<std::string> ResolveInFolder(const std::string& dir, const std::string& allowed_root,
                                    std::string_view relative);

/// Content of such a file. Errors: as above; kDataLoss for more than `max_bytes`.
Result<std::string> ReadInFolder(const std::string& dir, const std::string& allowed_root,
                                 std::string_view relative, size_t max_bytes);

/// Status of a failed look-up in the file system.
Status FolderProblem(const std::error_code& error, const std::string& path);

}  // namespace deepinfer
