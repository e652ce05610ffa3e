#include "checkpoint/inspect.h"

#include <cmath>

#include <fmt/format.h>

#include "base/file.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/common_options.h"
#include "cli/interrupt.h"
#include "cli/inventory_table.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "engine/model_files.h"

namespace deepinfer::cli {
namespace {

constexpr size_t kMaxManifestBytes = size_t{64} << 20;
constexpr size_t kShownNames = 20;

json::Value Strings(const std::vector<std::string>& texts) {
  json::Array out(texts.begin(), texts.end());
  return out;
}

json::Value Mismatches(const std::vector<TensorMismatch>& mismatches) {
  json::Array out;
  for (const TensorMismatch& one : mismatches) {
    json::Value entry;
    entry.Set("name", one.name);
    entry.Set("expected", one.expected);
    entry.Set("found", one.found);
    out.push_back(std::move(entry));
  }
  return out;
}

Result<json::Value> ReportToJson(const InspectReport& report) {
  json::Value config;
  if (report.config) {
    DEEPINFER_ASSIGN_OR_RETURN(config, json::Parse(SerializeConfig(*report.config)));
  }
  json::Value out;
  out.Set("format", report.format);
  out.Set("config", std::move(config));
  out.Set("tensors", report.tensors);
  out.Set("bytes", report.bytes);
  out.Set("by_class", ClassesToJson(report.totals));
  out.Set("missing", Strings(report.inventory.missing));
  out.Set("unexpected", Strings(report.inventory.unexpected));
  out.Set("mismatched", Mismatches(report.inventory.mismatched));
  out.Set("problems", Strings(report.problems));
  out.Set("sound", report.sound);
  out.Set("digest", report.digest.empty() ? json::Value() : json::Value(report.digest));
  return out;
}

std::string ShapeText(std::span<const uint64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::string NameList(std::string_view title, const std::vector<std::string>& names) {
  std::string out;
  for (size_t i = 0; i < names.size() && i < kShownNames; ++i)
    out += fmt::format("{}: {}\n", title, Printable(names[i]));
  if (names.size() > kShownNames) out += fmt::format("{}: and {} more\n", title, names.size() - kShownNames);
  return out;
}

std::string ReportText(const std::string& dir, const InspectReport& report) {
  std::string out = fmt::format("{}: {}, {} shard{}, {} tensors, {} bytes\n\n", dir, report.format,
                                report.shards, report.shards == 1 ? "" : "s", report.tensors, report.bytes);
  if (report.tensors > 0) out += ClassTable(report.totals) + "\n";
  if (report.config) {
    const ModelConfig& config = *report.config;
    out += fmt::format(
        "{} layers, hidden size {}, vocabulary {}, context {} tokens, {} experts ({} per token), {} draft "
        "stages\n",
        config.num_hidden_layers, config.hidden_size, config.vocab_size, config.max_position_embeddings,
        config.n_routed_experts, config.num_experts_per_tok, config.num_nextn_predict_layers);
  }
  out += NameList("missing", report.inventory.missing) + NameList("unexpected", report.inventory.unexpected);
  std::vector<std::string> mismatched;
  for (const TensorMismatch& one : report.inventory.mismatched) {
    mismatched.push_back(fmt::format("{} is {}, should be {}", one.name, one.found, one.expected));
  }
  out += NameList("mismatched", mismatched) + NameList("problem", report.problems);
  if (!report.hint.empty()) out += fmt::format("try: {}\n", Printable(report.hint));
  if (!report.digest.empty()) out += fmt::format("digest {}\n", report.digest);
  return out + (report.sound ? "sound\n" : "not sound\n");
}

/// The parts that --tensors, --stats and --verify add to the report.
struct Extras {
  json::Value object{json::Object{}};
  std::string text;
  bool sound = true;
};

void AddTensors(const Checkpoint& checkpoint, const std::string& glob, Extras* extras) {
  json::Array list;
  for (const size_t index : SelectTensors(checkpoint, glob)) {
    const TensorInfo tensor = checkpoint.tensor(index);
    const std::string& shard = checkpoint.shards()[static_cast<size_t>(tensor.shard)].name;
    json::Array shape;
    for (const uint64_t dim : tensor.shape) shape.emplace_back(dim);
    json::Value entry;
    entry.Set("name", tensor.name);
    entry.Set("dtype", StorageDtypeName(tensor.dtype));
    entry.Set("shape", std::move(shape));
    entry.Set("shard", shard);
    entry.Set("offset", tensor.file_offset);
    entry.Set("bytes", tensor.num_bytes);
    list.push_back(std::move(entry));
    extras->text +=
        fmt::format("{:<10} {:<20} {:>14}  {}  {}\n", StorageDtypeName(tensor.dtype), ShapeText(tensor.shape),
                    tensor.num_bytes, Printable(shard), Printable(tensor.name));
  }
  extras->object.Set("tensor_list", std::move(list));
}

Status AddStats(const Checkpoint& checkpoint, const std::string& glob, Extras* extras) {
  json::Array list;
  extras->text += fmt::format("{:>12} {:>12} {:>12} {:>8}  tensor\n", "min", "max", "mean", "nan");
  for (const size_t index : SelectTensors(checkpoint, glob)) {
    if (Interrupted()) return Cancelled();
    const TensorInfo tensor = checkpoint.tensor(index);
    DEEPINFER_ASSIGN_OR_RETURN(const TensorStats stats, ComputeTensorStats(checkpoint, tensor));
    json::Value entry;
    entry.Set("name", tensor.name);
    entry.Set("elements", stats.elements);
    entry.Set("min", stats.min);
    entry.Set("max", stats.max);
    entry.Set("mean", stats.mean);
    entry.Set("nan", stats.nan);
    list.push_back(std::move(entry));
    extras->text += fmt::format("{:>12.5g} {:>12.5g} {:>12.5g} {:>8}  {}\n", stats.min, stats.max, stats.mean,
                                stats.nan, Printable(tensor.name));
  }
  extras->object.Set("stats", std::move(list));
  return OkStatus();
}

Status AddVerification(const Checkpoint& checkpoint, const Arguments& args, Extras* extras) {
  std::optional<std::string> manifest;
  if (args.Text("--verify") != "*") {
    DEEPINFER_ASSIGN_OR_RETURN(manifest, ReadFile(args.Text("--verify"), kMaxManifestBytes));
  }
  LoadMeter meter;
  const auto progress = [&meter](uint64_t done, uint64_t total) {
    meter.Update(done, total);
    return !Interrupted();
  };
  const Result<VerifyReport> report = VerifyFiles(checkpoint, manifest, progress);
  meter.Clear();
  if (!report.ok()) return report.status();
  json::Array list;
  for (const VerifiedFile& file : report->files) {
    json::Value entry;
    entry.Set("name", file.name);
    entry.Set("bytes", file.bytes);
    entry.Set("sha256", file.sha256);
    entry.Set("expected", file.expected.empty() ? json::Value() : json::Value(file.expected));
    entry.Set("ok", file.ok());
    if (!file.ok()) entry.Set("problem", file.problem);
    list.push_back(std::move(entry));
    extras->text += fmt::format("{}  {}{}\n", file.sha256, Printable(file.name),
                                file.ok() ? std::string() : ": " + Printable(file.problem));
  }
  extras->object.Set("files", std::move(list));
  json::Array not_finite;
  for (const NotFinite& one : report->not_finite) {
    json::Value entry;
    entry.Set("name", one.tensor);
    entry.Set("count", one.count);
    not_finite.push_back(std::move(entry));
    extras->text += fmt::format("{}: {} value{} that {} no finite number\n", Printable(one.tensor), one.count,
                                one.count == 1 ? "" : "s", one.count == 1 ? "is" : "are");
  }
  extras->object.Set("not_finite", std::move(not_finite));
  extras->sound = report->sound;
  return OkStatus();
}

Status AddExtras(const Checkpoint& checkpoint, const Arguments& args, Extras* extras) {
  if (args.Has("--tensors")) AddTensors(checkpoint, args.Text("--tensors"), extras);
  if (args.Has("--stats")) DEEPINFER_RETURN_IF_ERROR(AddStats(checkpoint, args.Text("--stats"), extras));
  if (args.Has("--verify")) DEEPINFER_RETURN_IF_ERROR(AddVerification(checkpoint, args, extras));
  return OkStatus();
}

Result<int> RunInspect(const Arguments& args) {
  DEEPINFER_ASSIGN_OR_RETURN(
      const std::string dir,
      FindModel(args.positionals().empty() ? std::string() : args.positionals().front()));
  const OpenOptions options = CheckpointOptions(args);
  DEEPINFER_ASSIGN_OR_RETURN(InspectReport report, InspectFolder(dir, options));
  Extras extras;
  // A folder that cannot be opened has been reported with its problems; there is nothing to list in it.
  if (report.problems.empty()) {
    DEEPINFER_ASSIGN_OR_RETURN(const std::shared_ptr<Checkpoint> checkpoint, Checkpoint::Open(dir, options));
    for (const Status& problem : CheckModelFiles(*checkpoint)) {
      report.problems.push_back(problem.ToString());
      if (report.hint.empty()) report.hint = problem.hint();
    }
    DEEPINFER_RETURN_IF_ERROR(AddExtras(*checkpoint, args, &extras));
  }
  report.sound = report.sound && report.problems.empty() && extras.sound;
  if (args.Has("--json")) {
    DEEPINFER_ASSIGN_OR_RETURN(json::Value object, ReportToJson(report));
    for (auto& [key, value] : extras.object.AsObject()) object.Set(key, std::move(value));
    DEEPINFER_RETURN_IF_ERROR(WriteJsonLine(object));
  } else {
    DEEPINFER_RETURN_IF_ERROR(
        WriteStdout(ReportText(dir, report) + (extras.text.empty() ? "" : "\n" + extras.text)));
  }
  return report.sound ? 0 : 4;
}

}  // namespace

Command InspectCommand() {
  CommandSpec spec;
  spec.name = "inspect";
  spec.summary = "what is in a checkpoint folder, and whether it is sound";
  spec.positionals = {ModelPositional()};
  spec.max_positionals = 1;
  spec.description =
      "Reads configuration, index and headers, tokenizer, token map and generation_config.json; payloads "
      "only "
      "with --stats and --verify. The digest is the SHA-256 of configuration, index and headers. An unsound "
      "folder is shown all the same, with exit code 4.";
  spec.example = "deepinfer inspect MODEL --tensors='layers.0.attn.*'";
  spec.example_note = "Shows the classes of weights, and the tensors of one layer's attention.";
  spec.see_also = {"plan", "doctor"};
  OptionGroup details{.title = "Details", .options = {}};
  details.options.push_back({.name = "--tensors",
                             .kind = ValueKind::kText,
                             .value = "GLOB",
                             .help = "lists tensors, all or those whose names match",
                             .optional_value = true});
  details.options.push_back({.name = "--stats",
                             .kind = ValueKind::kText,
                             .value = "GLOB",
                             .help = "least, largest and mean value of tensors after decoding"});
  details.options.push_back(
      {.name = "--verify",
       .kind = ValueKind::kFile,
       .value = "MANIFEST",
       .help = "reads every file, prints its SHA-256 and names tensors that hold NaN or infinity; compares "
               "with lines of sha256sum when given",
       .optional_value = true});
  details.options.push_back(AllowLinksOption());
  spec.groups = {std::move(details), OutputOptions()};
  return {.spec = std::move(spec), .run = RunInspect};
}

}  // namespace deepinfer::cli
