#include "checkpoint/folder.h"

#include <algorithm>
#include <filesystem>

namespace deepinfer {
namespace {

namespace fs = std::filesystem;

/// Whether `path` lies below `root`, both canonical.
bool IsBelow(const fs::path& path, const fs::path& root) {
  return std::mismatch(root.begin(), root.end(), path.begin(), path.end()).first == root.end();
}

}  // namespace

Status FolderProblem(const std::error_code& error, const std::string& path) {
  if (error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory) {
    return NotFound("the file does not exist", path);
  }
  return IoError("cannot open the file: " + error.message(), path);
}

Result<std::string> ResolveInFolder(const std::string& dir, const std::string& allowed_root,
                                    std::string_view relative) {
  const fs::path inside(relative);
  const bool climbs = std::find(inside.begin(), inside.end(), "..") != inside.end();
  if (inside.empty() || inside.is_absolute() || climbs || relative.find('\0') != std::string_view::npos) {
    return DataLoss("the name leaves the checkpoint folder", std::string(relative.substr(0, 80)));
  }
  const std::string path = (fs::path(dir) / inside).string();
  std::error_code error;
  const fs::path root = fs::canonical(dir, error);
  if (error) return FolderProblem(error, dir);
  const fs::path target = fs::canonical(path, error);
  if (error) return FolderProblem(error, path);
  if (IsBelow(target, root)) return target.string();
  if (!allowed_root.empty()) {
    const fs::path allowed = fs::canonical(allowed_root, error);
    if (!error && IsBelow(target, allowed)) return target.string();
  }
  return DataLoss("the file is a link that leaves the checkpoint folder", path)
      .WithHint("name the folder that holds the link targets as the allowed root");
}

}  // namespace deepinfer
