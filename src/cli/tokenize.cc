#include <fmt/format.h>

#include "cli/command.h"
#include "cli/common_options.h"
#include "cli/line_reader.h"
#include "cli/output.h"
#include "cli/tokenizer_option.h"
#include "tokenizer/detokenizer.h"
#include "tokenizer/tokenizer.h"

namespace deepinfer::cli {
namespace {

constexpr size_t kMaxTextBytes = size_t{64} << 20;

OptionGroup TokenizerOptions() { return {.title = "Tokenizer", .options = {TokenizerOption()}}; }

std::string CommaSeparated(const std::vector<int32_t>& ids) {
  std::string out;
  for (const int32_t id : ids) out += (out.empty() ? "" : ",") + std::to_string(id);
  return out;
}

json::Value TokensToJson(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  json::Array id_list, pieces, offsets;
  for (const int32_t id : ids) {
    id_list.emplace_back(int64_t{id});
    pieces.emplace_back(tokenizer.TokenString(id));
  }
  for (const auto& [begin, end] : tokenizer.TokenOffsets(ids)) {
    offsets.emplace_back(
        json::Array{json::Value(static_cast<uint64_t>(begin)), json::Value(static_cast<uint64_t>(end))});
  }
  json::Value out;
  out.Set("ids", std::move(id_list));
  out.Set("pieces", std::move(pieces));
  out.Set("offsets", std::move(offsets));
  return out;
}

Result<int> RunTokenize(const Arguments& args) {
  if (args.positionals().empty())
    return InvalidArgument("a text is needed").WithHint("deepinfer tokenize \"Hello\"");
  ModelAndOperand split = SplitPositionals(args);
  DEEPINFER_ASSIGN_OR_RETURN(const auto tokenizer, LoadTokenizer(args, split.model));
  if (split.operand == "-") {
    DEEPINFER_ASSIGN_OR_RETURN(split.operand, ReadTextInput("-", kMaxTextBytes));
  }
  DEEPINFER_RETURN_IF_ERROR(CheckUtf8(split.operand, "TEXT"));
  EncodeOptions options;
  options.added_tokens = args.Has("--special");
  DEEPINFER_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, tokenizer->Encode(split.operand, options));
  if (args.Has("--json")) {
    DEEPINFER_RETURN_IF_ERROR(WriteJsonLine(TokensToJson(*tokenizer, ids)));
  } else {
    DEEPINFER_RETURN_IF_ERROR(WriteStdout(CommaSeparated(ids) + "\n"));
  }
  return 0;
}

Result<int> RunDetokenize(const Arguments& args) {
  if (args.positionals().empty())
    return InvalidArgument("ids are needed").WithHint("deepinfer detokenize 19,25,375");
  ModelAndOperand split = SplitPositionals(args);
  DEEPINFER_ASSIGN_OR_RETURN(const auto tokenizer, LoadTokenizer(args, split.model));
  if (split.operand == "-") {
    DEEPINFER_ASSIGN_OR_RETURN(split.operand, ReadTextInput("-", kMaxTextBytes));
  }
  DEEPINFER_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, ParseIds(split.operand, "IDS"));
  for (const int32_t id : ids) {
    if (id < tokenizer->vocab_size()) continue;
    return InvalidArgument(
        fmt::format("the tokenizer has ids 0 to {}, not {}", tokenizer->vocab_size() - 1, id), "IDS");
  }
  if (args.Has("--json")) {
    json::Value out;
    out.Set("text", DecodeText(*tokenizer, ids));
    DEEPINFER_RETURN_IF_ERROR(WriteJsonLine(out));
  } else if (StdoutIsTerminal()) {
    DEEPINFER_RETURN_IF_ERROR(WriteStdout(Printable(tokenizer->Decode(ids)) + "\n"));
  } else {
    DEEPINFER_RETURN_IF_ERROR(WriteStdout(tokenizer->Decode(ids)));
  }
  return 0;
}

}  // namespace

Command TokenizeCommand() {
  CommandSpec spec;
  spec.name = "tokenize";
  spec.summary = "turns a text into token ids";
  spec.positionals = {ModelPositional(),
                      {.name = "TEXT",
                       .kind = ValueKind::kText,
                       .help = "the text; - reads it from standard input",
                       .required = true}};
  spec.max_positionals = 2;
  spec.description =
      "With --json: ids, pieces (the tokens as the vocabulary spells them) and offsets (byte ranges in the "
      "text).";
  spec.example = "deepinfer tokenize --special \"<think>17 + 10\"";
  spec.example_note = "Prints ids that detokenize and generate --ids read.";
  spec.see_also = {"detokenize", "generate"};
  OptionGroup group = TokenizerOptions();
  group.options.push_back(
      {.name = "--special", .kind = ValueKind::kFlag, .help = "special tokens are recognised in the text"});
  spec.groups = {std::move(group), OutputOptions()};
  return {.spec = std::move(spec), .run = RunTokenize};
}

Command DetokenizeCommand() {
  CommandSpec spec;
  spec.name = "detokenize";
  spec.summary = "turns token ids into bytes";
  spec.positionals = {ModelPositional(),
                      {.name = "IDS",
                       .kind = ValueKind::kText,
                       .help = "ids as 0,17,4085; - reads them from standard input",
                       .required = true}};
  spec.max_positionals = 2;
  spec.description =
      "Writes exactly the bytes of the tokens, without a line end, unless standard output is a terminal.";
  spec.example = "deepinfer tokenize \"Hello\" | deepinfer detokenize -";
  spec.example_note = "Prints Hello.";
  spec.see_also = {"tokenize"};
  spec.groups = {TokenizerOptions(), OutputOptions()};
  return {.spec = std::move(spec), .run = RunDetokenize};
}

}  // namespace deepinfer::cli
