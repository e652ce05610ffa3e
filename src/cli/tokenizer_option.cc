#include "cli/tokenizer_option.h"

#include <filesystem>

#include "cli/common_options.h"

namespace deepinfer::cli {

OptionSpec TokenizerOption() {
  return {.name = "--tokenizer",
          .kind = ValueKind::kFolder,
          .value = "DIR",
          .help = "folder with tokenizer.json, or the file itself; default: the model's"};
}

Result<std::shared_ptr<const Tokenizer>> LoadTokenizer(const Arguments& args, const std::string& model) {
  std::filesystem::path path = args.Text("--tokenizer");
  if (path.empty()) {
    DEEPINFER_ASSIGN_OR_RETURN(path, FindModel(model));
  } else if (!model.empty()) {
    return InvalidArgument("MODEL and --tokenizer exclude each other", "--tokenizer");
  }
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) path /= "tokenizer.json";
  return Tokenizer::Load(path.string());
}

}  // namespace deepinfer::cli
