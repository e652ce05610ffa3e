#include "checkpoint/inspect.h"

#include <algorithm>
#include <utility>

#include "base/file.h"
#include "base/sha256.h"
#include "checkpoint/folder.h"
#include "checkpoint/payload_scan.h"

namespace deepinfer {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;

struct ManifestLine {
  std::string sha256;
  std::string name;
};

Result<std::vector<ManifestLine>> ParseManifest(std::string_view text) {
  constexpr size_t kHexDigits = 64;
  std::vector<ManifestLine> lines;
  size_t number = 0;
  while (!text.empty()) {
    ++number;
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const bool separated = line.size() > kHexDigits + 2 && line[kHexDigits] == ' ' &&
                           (line[kHexDigits + 1] == ' ' || line[kHexDigits + 1] == '*');
    std::string digest(line.substr(0, kHexDigits));
    for (char& c : digest) c = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
    const bool hex = digest.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (!separated || !hex)
      return DataLoss("not a line of sha256sum", "manifest line " + std::to_string(number));
    lines.push_back({std::move(digest), std::string(line.substr(kHexDigits + 2))});
  }
  return lines;
}

Result<RandomAccessFile> OpenInFolder(const Checkpoint& checkpoint, const std::string& name) {
  DEEPINFER_ASSIGN_OR_RETURN(const std::string path,
                             ResolveInFolder(checkpoint.dir(), checkpoint.allowed_root(), name));
  return RandomAccessFile::Open(path);
}

/// Reads files one after another: hashes them, and looks through the payloads of shards.
class FileVerifier {
 public:
  FileVerifier(const Checkpoint& checkpoint, const VerifyProgress& progress)
      : checkpoint_(checkpoint), progress_(progress) {}

  /// Announces a file for the progress.
  void Announce(uint64_t bytes) { total_ += bytes; }
  /// Reads one file; `hex` receives its digest. Errors: kCancelled, those of reading.
  Status Read(const RandomAccessFile& file, std::string_view name, std::string* hex);
  std::vector<NotFinite> TakeNotFinite() { return std::move(not_finite_); }

 private:
  const Checkpoint& checkpoint_;
  const VerifyProgress& progress_;
  uint64_t total_ = 0;
  uint64_t done_ = 0;
  std::vector<NotFinite> not_finite_;
};

std::optional<int> FindShard(const Checkpoint& checkpoint, std::string_view name) {
  const auto& shards = checkpoint.shards();
  const auto it = std::find_if(shards.begin(), shards.end(), [&](const auto& s) { return s.name == name; });
  return it == shards.end() ? std::nullopt : std::optional(static_cast<int>(it - shards.begin()));
}

Status FileVerifier::Read(const RandomAccessFile& file, std::string_view name, std::string* hex) {
  const std::optional<int> shard = FindShard(checkpoint_, name);
  std::optional<PayloadScan> scan;
  if (shard) scan.emplace(checkpoint_, *shard);
  Sha256 hash;
  std::vector<std::byte> piece;
  for (uint64_t offset = 0; offset < file.size();) {
    piece.resize(std::min<uint64_t>(kPieceBytes, file.size() - offset));
    DEEPINFER_RETURN_IF_ERROR(file.ReadAt(offset, piece));
    hash.Update(piece);
    if (scan) scan->Add(piece);
    offset += piece.size();
    done_ += piece.size();
    if (progress_ && !progress_(done_, total_)) return Cancelled();
  }
  *hex = ToHex(hash.Finish());
  if (scan) {
    for (NotFinite& one : scan->Take()) not_finite_.push_back(std::move(one));
  }
  return OkStatus();
}

}  // namespace

InspectReport Inspect(const Checkpoint& checkpoint, const InventoryOptions& inventory) {
  InspectReport report;
  report.format = "safetensors";
  report.shards = static_cast<int>(checkpoint.shards().size());
  report.config = checkpoint.config();
  report.tensors = checkpoint.num_tensors();
  report.bytes = checkpoint.total_bytes();
  report.totals = PresentTotals(checkpoint);
  report.inventory = CheckInventory(checkpoint, inventory);
  report.sound = report.inventory.sound();
  report.digest = ToHex(checkpoint.digest());
  return report;
}

Result<InspectReport> InspectFolder(const std::string& dir, const OpenOptions& options,
                                    const InventoryOptions& inventory) {
  auto checkpoint = Checkpoint::Open(dir, options);
  if (checkpoint.ok()) return Inspect(**checkpoint, inventory);
  const Status& problem = checkpoint.status();
  auto config = ReadModelConfig(dir, options);
  // Without a folder or a configuration there is nothing to report on.
  const bool nothing_there = config.status().code() == StatusCode::kNotFound;
  const bool unsound = problem.code() == StatusCode::kDataLoss || problem.code() == StatusCode::kNotFound;
  if (nothing_there || !unsound) return problem;
  InspectReport report;
  report.format = "safetensors";
  report.problems.push_back(problem.ToString());
  report.hint = problem.hint();
  if (config.ok()) report.config = std::move(config).value();
  return report;
}

bool MatchesGlob(std::string_view pattern, std::string_view name) {
  size_t p = 0;
  size_t n = 0;
  size_t star = std::string_view::npos;  // last `*` seen, and where its match ends so far
  size_t resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

std::vector<size_t> SelectTensors(const Checkpoint& checkpoint, std::string_view glob) {
  std::vector<size_t> selected;
  for (size_t i = 0; i < checkpoint.num_tensors(); ++i) {
    if (MatchesGlob(glob, checkpoint.tensor(i).name)) selected.push_back(i);
  }
  return selected;
}

Result<VerifyReport> VerifyFiles(const Checkpoint& checkpoint, const std::optional<std::string>& manifest,
                                 const VerifyProgress& progress) {
  std::vector<ManifestLine> lines;
  if (manifest.has_value()) {
    DEEPINFER_ASSIGN_OR_RETURN(lines, ParseManifest(*manifest));
  } else {
    lines.push_back({"", "config.json"});
    if (checkpoint.has_index()) lines.push_back({"", "model.safetensors.index.json"});
    for (const Checkpoint::Shard& shard : checkpoint.shards()) lines.push_back({"", shard.name});
  }
  const bool listed_all = !manifest.has_value();
  // Shards that no line names.
  std::vector<std::string> unlisted;
  for (const Checkpoint::Shard& shard : checkpoint.shards()) {
    const bool listed = listed_all || std::any_of(lines.begin(), lines.end(), [&](const ManifestLine& l) {
                          return l.name == shard.name;
                        });
    if (!listed) unlisted.push_back(shard.name);
  }
  // Sizes first, for the progress; files are opened one at a time since a manifest may name many.
  VerifyReport report;
  FileVerifier verifier(checkpoint, progress);
  for (const ManifestLine& line : lines) {
    VerifiedFile entry{.name = line.name, .bytes = 0, .sha256 = {}, .expected = line.sha256, .problem = {}};
    const auto file = OpenInFolder(checkpoint, line.name);
    if (file.ok()) entry.bytes = file->size();
    verifier.Announce(entry.bytes);
    report.files.push_back(std::move(entry));
  }
  for (const std::string& name : unlisted) {
    const auto file = OpenInFolder(checkpoint, name);
    verifier.Announce(file.ok() ? file->size() : 0);
  }
  for (VerifiedFile& entry : report.files) {
    const auto file = OpenInFolder(checkpoint, entry.name);
    const Status status = file.ok() ? verifier.Read(*file, entry.name, &entry.sha256) : file.status();
    if (status.code() == StatusCode::kCancelled) return status;
    if (!status.ok()) {
      entry.problem = status.ToString();
    } else if (!entry.expected.empty() && entry.sha256 != entry.expected) {
      entry.problem = "the digest differs";
    }
    report.sound = report.sound && entry.ok();
  }
  for (const std::string& name : unlisted) {
    DEEPINFER_ASSIGN_OR_RETURN(const RandomAccessFile file, OpenInFolder(checkpoint, name));
    std::string digest;
    DEEPINFER_RETURN_IF_ERROR(verifier.Read(file, name, &digest));
  }
  report.not_finite = verifier.TakeNotFinite();
  report.sound = report.sound && report.not_finite.empty();
  return report;
}

}  // namespace deepinfer
