// --tokenizer: commands that need a vocabulary, but no model.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "cli/arguments.h"
#include "cli/option_spec.h"
#include "tokenizer/tokenizer.h"

namespace deepinfer::cli {

OptionSpec TokenizerOption();

/// The tokenizer of --tokenizer, else that of the model (`model` may be empty: see FindModel). Errors: kNotFound, those of
/// Tokenizer::Load, kInvalidArgument when both are given.
Result<std::shared_ptr<const Tokenizer>> LoadTokenizer(const Arguments& args, const std::string& model);

}  // namespace deepinfer::cli
