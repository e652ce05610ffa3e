#include "cli/inventory_table.h"

#include <fmt/format.h>

#include "cli/output.h"

namespace deepinfer::cli {
namespace {

std::string Row(std::string_view name, const ClassTotal& total) {
  return fmt::format("{:<16} {:>8} {:>18} {:>10}\n", name, total.tensors, total.bytes,
                     ByteText(static_cast<double>(total.bytes)));
}

}  // namespace

json::Value ClassesToJson(const InventoryTotals& totals) {
  json::Value out;
  for (int i = 0; i < kNumWeightClasses; ++i) {
    const auto weight_class = static_cast<WeightClass>(i);
    json::Value total;
    total.Set("tensors", totals.of(weight_class).tensors);
    total.Set("bytes", totals.of(weight_class).bytes);
    out.Set(std::string(WeightClassName(weight_class)), std::move(total));
  }
  return out;
}

std::string ClassTable(const InventoryTotals& totals) {
  std::string out = fmt::format("{:<16} {:>8} {:>18}\n", "class", "tensors", "bytes");
  for (int i = 0; i < kNumWeightClasses; ++i) {
    const auto weight_class = static_cast<WeightClass>(i);
    if (totals.of(weight_class).tensors > 0)
      out += Row(WeightClassName(weight_class), totals.of(weight_class));
  }
  return out + Row("all", totals.all);
}

}  // namespace deepinfer::cli
