#include <algorithm>

#include <fmt/format.h>

#include "base/log.h"
#include "cli/command.h"
#include "cli/common_options.h"
#include "cli/machine.h"
#include "cli/output.h"
#include "cli/self_test.h"
#include "cli/version.h"
#include "engine/engine.h"
#include "engine/self_test.h"

namespace deepinfer::cli {
namespace {

constexpr uint64_t kBandwidthBytes = uint64_t{512} << 20;
constexpr int kBandwidthRounds = 5;
// Open files that a released checkpoint needs: 48 shards, and room for everything else.
constexpr uint64_t kOpenFiles = 256;

enum class Verdict : uint8_t { kOk, kNote, kFault };

/// One thing that was looked at.
struct Finding {
  std::string what;
  Verdict verdict = Verdict::kOk;
  std::string text;
  std::string fix;  // command that helps; may be empty
};

class Examination {
 public:
  explicit Examination(const Arguments& args) : args_(args) {}
  Status Run();
  bool well() const {
    return std::none_of(findings_.begin(), findings_.end(),
                        [](const Finding& f) { return f.verdict == Verdict::kFault; });
  }
  json::Value ToJson() const;
  std::string ToText() const;

 private:
  void Add(std::string what, Verdict verdict, std::string text, std::string fix = {}) {
    findings_.push_back(
        {.what = std::move(what), .verdict = verdict, .text = std::move(text), .fix = std::move(fix)});
  }
  void LookProcessor();
  void LookMemory();
  void LookLimits();
  void LookGpus();
  void LookModel();
  Status TestKernels();

  const Arguments& args_;
  std::vector<Finding> findings_;
  json::Value data_{json::Object{}};
};

void Examination::LookProcessor() {
  const ProcessorInfo info = LookAtProcessor();
  Add("processor", Verdict::kOk,
      fmt::format("{}, {} of {} processors for this process", info.model.empty() ? "unknown" : info.model,
                  info.available, info.present));
  Add("features", info.features.empty() ? Verdict::kNote : Verdict::kOk,
      info.features.empty() ? "none that the kernels use: they run with plain instructions"
                            : fmt::format("{}", fmt::join(info.features, " ")));
  const std::vector<std::string> targets = KernelTargets();
  const std::string chosen = ChosenTarget(args_);
  const bool known = std::find(targets.begin(), targets.end(), chosen) != targets.end();
  Add("kernel target", known ? Verdict::kOk : Verdict::kFault,
      known ? fmt::format("{} (this machine can run: {})", chosen, fmt::join(targets, ", "))
            : fmt::format("{} cannot run here", chosen),
      known ? std::string()
            : fmt::format("--cpu-target {}", targets.empty() ? "reference" : targets.front()));
  json::Array features(info.features.begin(), info.features.end()), names(targets.begin(), targets.end());
  json::Value processor;
  processor.Set("model", info.model);
  processor.Set("available", info.available);
  processor.Set("present", info.present);
  processor.Set("features", std::move(features));
  data_.Set("processor", std::move(processor));
  data_.Set("kernel_target", chosen);
  data_.Set("kernel_targets", std::move(names));
}

void Examination::LookMemory() {
  const MemoryInfo info = LookAtMemory();
  const int threads = static_cast<int>(args_.Integer("--threads", 0));
  const uint64_t bytes = std::min(kBandwidthBytes, std::max(info.available / 4, uint64_t{256} << 20));
  const double bandwidth = MeasureReadBandwidth(bytes, threads, kBandwidthRounds);
  Add("memory", Verdict::kOk,
      fmt::format("{} in all, {} available", ByteText(static_cast<double>(info.total)),
                  ByteText(static_cast<double>(info.available))));
  Add("read bandwidth", bandwidth > 0 ? Verdict::kOk : Verdict::kFault,
      bandwidth > 0 ? fmt::format("{}/s, measured over {} with {} threads", ByteText(bandwidth),
                                  ByteText(static_cast<double>(bytes)),
                                  threads > 0 ? threads : LookAtProcessor().available)
                    : "not measured: no memory for it");
  const bool transparent =
      info.transparent_huge_pages == "always" || info.transparent_huge_pages == "madvise";
  Add("huge pages", transparent || info.huge_pages_total > 0 ? Verdict::kOk : Verdict::kNote,
      fmt::format("transparent: {}; reserved: {} of {}",
                  info.transparent_huge_pages.empty() ? "unknown" : info.transparent_huge_pages,
                  info.huge_pages_free, info.huge_pages_total),
      transparent ? std::string() : "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled");
  json::Value memory;
  memory.Set("total_bytes", info.total);
  memory.Set("available_bytes", info.available);
  memory.Set("read_bytes_per_s", bandwidth);
  memory.Set("transparent_huge_pages", info.transparent_huge_pages);
  memory.Set("huge_pages_total", info.huge_pages_total);
  memory.Set("huge_pages_free", info.huge_pages_free);
  data_.Set("memory", std::move(memory));
}

void Examination::LookLimits() {
  json::Value limits{json::Object{}};
  for (const LimitInfo& limit : LookAtLimits()) {
    const bool small = limit.name == "open files" && !limit.unlimited && limit.value < kOpenFiles;
    const std::string value = limit.unlimited ? "unlimited" : fmt::format("{}", limit.value);
    Add("limit", small ? Verdict::kFault : Verdict::kOk, limit.name + ": " + value,
        small ? fmt::format("ulimit -n {}", kOpenFiles) : std::string());
    limits.Set(limit.name, limit.unlimited ? json::Value() : json::Value(limit.value));
  }
  data_.Set("limits", std::move(limits));
}

void Examination::LookGpus() {
  const GpuReport report = LookAtGpus();
  json::Array gpus;
  for (const GpuInfo& gpu : report.gpus) {
    Add("GPU", Verdict::kNote, fmt::format("{} at {}; this build has no GPU back end", gpu.name, gpu.bus));
    json::Value entry;
    entry.Set("name", gpu.name);
    entry.Set("bus", gpu.bus);
    gpus.push_back(std::move(entry));
  }
  if (report.driver.empty()) {
    Add("GPU", Verdict::kOk, "none (no NVIDIA driver); the CPU runs everything");
  } else {
    Add("GPU driver", Verdict::kOk, report.driver);
  }
  data_.Set("gpus", std::move(gpus));
  data_.Set("gpu_driver", report.driver.empty() ? json::Value() : json::Value(report.driver));
}

void Examination::LookModel() {
  const Result<std::string> model = FindModel({});
  Add("model", model.ok() ? Verdict::kOk : Verdict::kNote,
      model.ok() ? "default: " + *model : "none by default: the demo model is not beside this program",
      model.ok() ? std::string() : "cmake --build BUILD --target deepinfer_test_data");
  data_.Set("default_model", model.ok() ? json::Value(*model) : json::Value());
}

Status Examination::TestKernels() {
  const std::string depth = args_.Text("--self-test", "quick");
  json::Value test;
  test.Set("depth", depth);
  if (depth != "off") {
    const std::string target = ChosenTarget(args_);
    const Result<std::vector<SelfTestItem>> items =
        RunSelfTest(target, depth == "full" ? SelfTestDepth::kFull : SelfTestDepth::kQuick,
                    static_cast<int>(args_.Integer("--threads", 0)));
    if (!items.ok()) {
      Add("self-test", Verdict::kFault, items.status().ToString());
    } else {
      json::Array failed;
      for (const SelfTestItem& item : *items) {
        if (item.problem.empty()) continue;
        Add("self-test", Verdict::kFault, item.operation + ": " + item.problem, "--cpu-target reference");
        json::Value entry;
        entry.Set("operation", item.operation);
        entry.Set("problem", item.problem);
        failed.push_back(std::move(entry));
      }
      if (failed.empty())
        Add("self-test", Verdict::kOk,
            fmt::format("{} operations of {} agree with the reference", items->size(), target));
      test.Set("operations", static_cast<int64_t>(items->size()));
      test.Set("failed", std::move(failed));
    }
  }
  data_.Set("self_test", std::move(test));
  return OkStatus();
}

Status Examination::Run() {
  LookProcessor();
  LookMemory();
  LookLimits();
  LookGpus();
  LookModel();
  return TestKernels();
}

json::Value Examination::ToJson() const {
  json::Array faults;
  for (const Finding& finding : findings_) {
    if (finding.verdict == Verdict::kOk) continue;
    json::Value entry;
    entry.Set("what", finding.what);
    entry.Set("severity", finding.verdict == Verdict::kFault ? "fault" : "note");
    entry.Set("message", finding.text);
    entry.Set("fix", finding.fix);
    faults.push_back(std::move(entry));
  }
  json::Value out = VersionObject();
  for (const auto& [key, value] : data_.AsObject()) out.Set(key, value);
  out.Set("findings", std::move(faults));
  out.Set("ok", well());
  return out;
}

std::string Examination::ToText() const {
  std::string out = VersionText() + "\n\n";
  for (const Finding& finding : findings_) {
    const std::string_view mark = finding.verdict == Verdict::kOk     ? "ok"
                                  : finding.verdict == Verdict::kNote ? "note"
                                                                      : "FAULT";
    out += fmt::format("{:<6} {:<15} {}\n", mark, finding.what, Printable(finding.text));
    if (!finding.fix.empty() && finding.verdict != Verdict::kOk)
      out += fmt::format("{:<22} try: {}\n", "", finding.fix);
  }
  return out + (well() ? "\nall is well\n" : "\nsomething is wrong, see above\n");
}

Result<int> RunDoctor(const Arguments& args) {
  Examination examination(args);
  DEEPINFER_RETURN_IF_ERROR(examination.Run());
  if (args.Has("--json")) {
    DEEPINFER_RETURN_IF_ERROR(WriteJsonLine(examination.ToJson()));
  } else {
    DEEPINFER_RETURN_IF_ERROR(WriteStdout(examination.ToText()));
  }
  return examination.well() ? 0 : 3;
}

}  // namespace

Command DoctorCommand() {
  CommandSpec spec;
  spec.name = "doctor";
  spec.summary = "whether this machine is right";
  spec.description =
      "Looks at processor, memory, limits and GPUs, measures the read bandwidth of the memory, and compares "
      "the kernels with their "
      "reference. Exit code 0 only when all is well; 3 otherwise.";
  spec.example = "deepinfer doctor --self-test full";
  spec.example_note = "Tests every kernel on many shapes.";
  spec.see_also = {"plan", "inspect"};
  OptionGroup machine{.title = "Machine", .options = {}};
  for (OptionSpec& option : ModelOptions(/*with_prefill=*/false).options) {
    if (option.name == "--device" || option.name == "--allow-links") continue;
    if (option.name == "--self-test")
      option.help = "how thoroughly kernels are compared with their reference; default quick";
    machine.options.push_back(std::move(option));
  }
  spec.groups = {std::move(machine), OutputOptions()};
  return {.spec = std::move(spec), .run = RunDoctor};
}

}  // namespace deepinfer::cli
