#include "checkpoint/folder.h"

#include <algorithm>
#include <filesystem>

#include "base/file.h"

namespace deepinfer {
namespace {

namespace fs = std::filesystem;

/// Whether `path` lies below `root`, both canonical.
bool IsBelow(const fs::path& path, const fs::path& root) {
  return std::mismatch(root.begin(), root.end(), path.begin(), path.end()).first == root.end();
}

bool IsBelowAllowed(const fs::path& path, const std::string& allowed_root) {
  if (allowed_root.empty()) return false;
  std::error_code error;
  const fs::path root = fs::canonical(allowed_root, error);
  return !error && IsBelow(path, root);
}

bool IsLink(const fs::path& path) {
  std::error_code error;
  return fs::is_symlink(fs::symlink_status(path, error));
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
  if (error == std::errc::no_such_file_or_directory && IsLink(path))
    return DataLoss("the file is a link to nothing", path);
  if (error) return FolderProblem(error, path);
  if (!IsBelow(target, root) && !IsBelowAllowed(target, allowed_root)) {
    const std::string holder = target.parent_path().string();
    return DataLoss("the file is a link that leaves the checkpoint folder", path)
        .WithHint("--allow-links " + holder + ", or export DEEPINFER_ALLOW_LINKS=" + holder);
  }
  const fs::file_status status = fs::status(target, error);
  if (error) return FolderProblem(error, path);
  if (!fs::is_regular_file(status)) {
    return DataLoss(fs::is_directory(status) ? "this is a folder, not a file" : "this is not a regular file",
                    path);
  }
  return target.string();
}

Result<std::string> ReadInFolder(const std::string& dir, const std::string& allowed_root,
                                 std::string_view relative, size_t max_bytes) {
  DEEPINFER_ASSIGN_OR_RETURN(const std::string path, ResolveInFolder(dir, allowed_root, relative));
  return ReadFile(path, max_bytes, StatusCode::kDataLoss);
}

}  // namespace deepinfer
