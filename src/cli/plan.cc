#include <algorithm>

#include <fmt/format.h>

#include "checkpoint/memory_plan.h"
#include "cli/command.h"
#include "cli/common_options.h"
#include "cli/inventory_table.h"
#include "cli/output.h"
#include "engine/memory_check.h"

namespace deepinfer::cli {
namespace {

constexpr std::string_view kReleasedName = "deepseek-v4.1-flash";

std::string Positional(const Arguments& args) {
  return args.positionals().empty() ? std::string() : args.positionals().front();
}

Result<ModelConfig> FindConfig(const Arguments& args) {
  const std::string positional = Positional(args);
  if (positional == kReleasedName) return ReleasedConfig();
  DEEPINFER_ASSIGN_OR_RETURN(const std::string dir, FindModel(positional));
  Result<ModelConfig> config = ReadModelConfig(dir, CheckpointOptions(args));
  if (!config.ok() && config.status().code() == StatusCode::kNotFound) {
    return std::move(config).status().WithHint(
        fmt::format("deepinfer plan {}, which needs no files", kReleasedName));
  }
  return config;
}

Status AsOption(const Status& status, std::string option) {
  // The parsers do not know what they were called for: "must be …".
  std::string message =
      status.message().starts_with("must") ? option + " " + status.message() : status.message();
  return Status(status.code(), std::move(message), std::move(option)).WithHint(status.hint());
}

// A number of bytes with an optional unit; the device names of ParseDeviceMemory are none.
Result<uint64_t> ParseBytes(std::string_view text) {
  const bool is_number = !text.empty() && text.front() >= '0' && text.front() <= '9';
  if (is_number) {
    const Result<uint64_t> bytes = ParseDeviceMemory(text);
    if (bytes.ok()) return bytes;
  }
  return InvalidArgument(fmt::format(
      "must be a number of bytes with an optional KiB, MiB, GiB, TiB, KB, MB, GB or TB, not \"{}\"",
      text.substr(0, 40)));
}

// `released`: the model is known by its name alone, so that the GPUs need not be those of this machine.
Result<PlanRequest> MakeRequest(const Arguments& args, bool released) {
  PlanRequest request;
  request.num_devices = static_cast<int>(args.Integer("--gpus", args.Has("--gpu") ? 1 : 0));
  if (request.num_devices > 0) {
    const Result<uint64_t> bytes = ParseDeviceMemory(args.Text("--gpu", "h200"));
    if (!bytes.ok()) return AsOption(bytes.status(), "--gpu");
    request.device_bytes = *bytes;
  }
  request.utilisation = args.Real("--utilisation", request.utilisation);
  if (args.Has("--host-memory")) {
    const Result<uint64_t> bytes = ParseBytes(args.Text("--host-memory"));
    if (!bytes.ok()) return AsOption(bytes.status(), "--host-memory");
    request.host_bytes = *bytes;
  } else if (request.num_devices == 0 || !released) {
    request.host_bytes = HostMemoryBytes();
  }
  DEEPINFER_ASSIGN_OR_RETURN(request.engram, ParseEngramPlacement(args.Text("--engram", "auto")));
  request.context = args.Integer("--context", request.context);
  request.sequences = args.Integer("--sequences", request.sequences);
  request.draft = static_cast<int>(args.Integer("--draft", request.draft));
  return request;
}

json::Value RowToJson(const PlanRow& row) {
  json::Value out;
  out.Set("weights", row.weights);
  out.Set("kv", row.kv);
  out.Set("engram", row.engram);
  out.Set("workspace", row.workspace);
  // Of memory that is not known nothing is free; what it takes is `used`.
  out.Set("free", row.total == 0 ? json::Value() : json::Value(row.free()));
  out.Set("used", row.used());
  out.Set("total", row.total);
  out.Set("usable", row.usable);
  return out;
}

json::Value PlanToJson(const MemoryPlan& plan) {
  json::Array devices;
  for (const PlanRow& row : plan.devices) devices.push_back(RowToJson(row));
  json::Value at{json::Object{}};
  for (const auto& [context, sequences] : plan.max_sequences_at) at.Set(std::to_string(context), sequences);
  json::Value out;
  out.Set("tensors", plan.tensors);
  out.Set("bytes", plan.bytes);
  out.Set("by_class", ClassesToJson(plan.totals));
  out.Set("per_token_bytes", plan.per_token_bytes);
  out.Set("per_sequence_bytes", plan.per_sequence_bytes);
  out.Set("devices", std::move(devices));
  out.Set("host", RowToJson(plan.host));
  out.Set("verdict", plan.verdict);
  out.Set("reason", plan.reason);
  out.Set("max_sequences_at", std::move(at));
  return out;
}

std::string RowText(const std::string& name, const PlanRow& row) {
  const std::string free = row.total == 0 && row.used() == 0 ? "-"
                           : row.total == 0 ? "needs " + ByteText(static_cast<double>(row.used()))
                           : row.free() < 0 ? "-" + ByteText(-static_cast<double>(row.free()))
                                            : ByteText(static_cast<double>(row.free()));
  return fmt::format("{:<10} {:>10} {:>10} {:>10} {:>10} {:>10}\n", name,
                     ByteText(static_cast<double>(row.weights)), ByteText(static_cast<double>(row.engram)),
                     ByteText(static_cast<double>(row.kv)), ByteText(static_cast<double>(row.workspace)),
                     free);
}

std::string PlanText(const MemoryPlan& plan) {
  std::string out = ClassTable(plan.totals) + "\n";
  out += fmt::format("{:<10} {:>10} {:>10} {:>10} {:>10} {:>10}\n", "place", "weights", "engram", "kv",
                     "workspace", "free");
  for (size_t i = 0; i < plan.devices.size(); ++i)
    out += RowText(fmt::format("device {}", i), plan.devices[i]);
  out += RowText("host", plan.host);
  out += fmt::format("\n{} bytes of KV per token, {} per sequence\n", plan.per_token_bytes,
                     ByteText(static_cast<double>(plan.per_sequence_bytes)));
  for (const auto& [context, sequences] : plan.max_sequences_at)
    out += fmt::format("at {} tokens: {} sequences\n", context, sequences);
  return out + fmt::format("\n{}: {}\n", plan.verdict, plan.reason);
}

Result<int> RunPlan(const Arguments& args) {
  DEEPINFER_ASSIGN_OR_RETURN(const PlanRequest request, MakeRequest(args, Positional(args) == kReleasedName));
  DEEPINFER_ASSIGN_OR_RETURN(const ModelConfig config, FindConfig(args));
  DEEPINFER_ASSIGN_OR_RETURN(const MemoryPlan plan, PlanMemory(config, request));
  if (args.Has("--json")) {
    DEEPINFER_RETURN_IF_ERROR(WriteJsonLine(PlanToJson(plan)));
  } else {
    DEEPINFER_RETURN_IF_ERROR(WriteStdout(PlanText(plan)));
  }
  return 0;
}

}  // namespace

Command PlanCommand() {
  CommandSpec spec;
  spec.name = "plan";
  spec.summary = "whether a model fits, before anything is loaded";
  PositionalSpec model = ModelPositional();
  model.name = "MODEL|deepseek-v4.1-flash";
  model.help =
      "checkpoint folder, or the name of the released model, which needs no files; default as everywhere";
  spec.positionals = {std::move(model)};
  spec.max_positionals = 1;
  spec.description =
      "Attention runs data-parallel with the dense part on every device; experts, and Engram tables when "
      "they are on the devices, are "
      "spread. Without --gpus everything runs on the processors of the host.";
  spec.example = "deepinfer plan deepseek-v4.1-flash --gpus 8 --gpu h200";
  spec.example_note = "Prints weights, KV and free memory of each device, and the verdict.";
  spec.see_also = {"inspect", "doctor"};
  OptionGroup machine{.title = "Machine and load", .options = {}};
  machine.options = {
      {.name = "--gpus",
       .kind = ValueKind::kInteger,
       .value = "N",
       .help = "devices; default 0, or 1 with --gpu",
       .min = 0,
       .max = 4096},
      {.name = "--gpu",
       .kind = ValueKind::kText,
       .value = "NAME|BYTES",
       .help = "h200, h100, b200, … or the memory of a device (141GB); default h200"},
      {.name = "--host-memory",
       .kind = ValueKind::kText,
       .value = "BYTES",
       .help =
           "memory of the host (512GiB); default: this machine's, but unchecked for the released model on "
           "GPUs"},
      {.name = "--engram",
       .kind = ValueKind::kChoice,
       .value = "PLACE",
       .help = "auto (default), device, host or disk",
       .choices = {"auto", "device", "host", "disk"}},
      {.name = "--context",
       .kind = ValueKind::kInteger,
       .value = "N",
       .help = "tokens per sequence; default 8192",
       .min = 1,
       .max = 1 << 30},
      {.name = "--sequences",
       .kind = ValueKind::kInteger,
       .value = "N",
       .help = "sequences at the same time; default 1",
       .min = 1,
       .max = 1 << 24},
      {.name = "--draft",
       .kind = ValueKind::kInteger,
       .value = "N",
       .help = "draft tokens per step, 0 = none; default: the model's block size",
       .min = 0,
       .max = 64},
      {.name = "--utilisation",
       .kind = ValueKind::kReal,
       .value = "X",
       .help = "share of a device's memory that may be used; default 0.9",
       .min = 0,
       .max = 1,
       .min_excluded = true},
      AllowLinksOption(),
  };
  spec.groups = {std::move(machine), OutputOptions()};
  return {.spec = std::move(spec), .run = RunPlan};
}

}  // namespace deepinfer::cli
