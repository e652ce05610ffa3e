#include "checkpoint/synthetic_tokenizer.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "base/json.h"

namespace deepinfer {
namespace {

constexpr int kNumSpecials = 3;
constexpr int kNumMerges = 221;

// Words of the text that the merges are learnt from; a leading blank is added to all of them.
constexpr std::string_view kCorpus =
    "the of and to in that was his he it with is for as had you not be her on at by which have or from this "
    "him but all she they "
    "were my are me one their so an said them we who would been will no when there if more out up into do "
    "any your what has man "
    "could other than our some very time upon about may its only now like little then can made should did us "
    "such great before "
    "must two these see know over much down after first mister good men own never most old shall day where "
    "those came come "
    "himself way work life without go make well through being long say might how am too even def again many "
    "back here think "
    "every people went same last thought away under take found hand eyes still place while just also young "
    "yet though against "
    "things get ever give god years off face nothing right once another left part saw house world head three "
    "took new love "
    "always mrs put night each king between tell mind heart few because thing whom far seemed looked called "
    "whole de set both "
    "got find done heard look name days told let lord country asked going seen better having home knew side "
    "something moment "
    "father among course hands woman enough words mother soon full end gave room almost small thou cannot "
    "water want however "
    "light quite brought nor word whose given door best turned taken does use morning myself felt";

std::string Utf8(uint32_t code) {
  std::string out;
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | (code >> 6));
    out += static_cast<char>(0x80 | (code & 0x3F));
  }
  return out;
}

bool IsOwnSymbol(int byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

/// The bytes in the order of their token ids (checkpoint.md §8.1): those that stand for themselves first.
std::vector<int> BytesInIdOrder() {
  std::vector<int> order;
  for (const bool own : {true, false}) {
    for (int byte = 0; byte < 256; ++byte) {
      if (IsOwnSymbol(byte) == own) order.push_back(byte);
    }
  }
  return order;
}

/// Printable symbol of every byte; the others take U+0100, U+0101, … in order.
std::array<std::string, 256> ByteSymbols() {
  std::array<std::string, 256> symbols;
  uint32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    symbols[static_cast<size_t>(byte)] = Utf8(IsOwnSymbol(byte) ? static_cast<uint32_t>(byte) : next++);
  }
  return symbols;
}

using Pair = std::pair<std::string, std::string>;

void MergeIn(std::vector<std::string>& word, const Pair& pair) {
  std::vector<std::string> merged;
  for (size_t i = 0; i < word.size(); ++i) {
    if (i + 1 < word.size() && word[i] == pair.first && word[i + 1] == pair.second) {
      merged.push_back(word[i] + word[i + 1]);
      ++i;
    } else {
      merged.push_back(word[i]);
    }
  }
  word = std::move(merged);
}

/// Byte-pair encoding as it is usually trained: the most frequent pair first, the smaller pair on ties.
std::vector<Pair> LearnMerges() {
  const auto symbols = ByteSymbols();
  std::vector<std::vector<std::string>> words(1, {symbols[' ']});
  for (const char c : kCorpus) {
    if (c == ' ') {
      words.push_back({symbols[' ']});
    } else {
      words.back().push_back(symbols[static_cast<unsigned char>(c)]);
    }
  }
  std::vector<Pair> merges;
  while (merges.size() < kNumMerges) {
    std::map<Pair, int> counts;
    for (const auto& word : words) {
      for (size_t i = 0; i + 1 < word.size(); ++i) ++counts[{word[i], word[i + 1]}];
    }
    const auto best = std::max_element(counts.begin(), counts.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    merges.push_back(best->first);
    for (auto& word : words) MergeIn(word, best->first);
  }
  return merges;
}

/// Learnt once: every synthetic configuration asks for them.
const std::vector<Pair>& Merges() {
  static const std::vector<Pair> merges = LearnMerges();
  return merges;
}

std::vector<std::string> SpecialTokens() {
  return {"<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜▁pad▁｜>"};
}

struct AddedToken {
  std::string content;
  bool normalized = true;
  bool special = false;
};

/// Ids 480 … 511.
std::vector<AddedToken> AddedTokens() {
  std::vector<AddedToken> tokens;
  for (const char* text : {"<｜System｜>", "<｜User｜>", "<｜Assistant｜>", "<think>", "</think>", "｜DSML｜",
                           "<｜latest_reminder｜>", "<｜action｜>", "<｜query｜>", "<｜authority｜>",
                           "<｜domain｜>", "<｜title｜>", "<｜read_url｜>"}) {
    tokens.push_back({.content = text});
  }
  tokens.push_back({.content = "<|EOT|>", .normalized = true, .special = true});
  tokens.push_back({.content = "<｜deepseek_image｜>", .normalized = false, .special = false});
  for (int n = 1; n <= 17; ++n) {
    const std::string number = std::to_string(10000 + n).substr(1);
    tokens.push_back(
        {.content = "<|place_holder_mm_span_" + number + "|>", .normalized = true, .special = true});
  }
  return tokens;
}

json::Value AddedTokenJson(int id, const AddedToken& token) {
  json::Object o;
  o.emplace_back("id", id);
  o.emplace_back("content", token.content);
  o.emplace_back("single_word", false);
  o.emplace_back("lstrip", false);
  o.emplace_back("rstrip", false);
  o.emplace_back("normalized", token.normalized);
  o.emplace_back("special", token.special);
  return o;
}

json::Value Split(const char* regex) {
  json::Object o;
  o.emplace_back("type", "Split");
  o.emplace_back("pattern", json::Object{{"Regex", regex}});
  o.emplace_back("behavior", "Isolated");
  o.emplace_back("invert", false);
  return o;
}

json::Value ByteLevel(bool add_prefix_space, bool trim_offsets, bool use_regex) {
  json::Object o;
  o.emplace_back("type", "ByteLevel");
  o.emplace_back("add_prefix_space", add_prefix_space);
  o.emplace_back("trim_offsets", trim_offsets);
  o.emplace_back("use_regex", use_regex);
  return o;
}

/// The three splits of checkpoint.md §8.2.
json::Value PreTokenizer() {
  json::Array parts;
  parts.push_back(Split("\\p{N}{1,3}"));
  parts.push_back(Split("[一-龥\u3040-ゟ゠-ヿ]+"));
  parts.push_back(Split(
      "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
      "?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"));
  parts.push_back(ByteLevel(false, true, false));
  json::Object o;
  o.emplace_back("type", "Sequence");
  o.emplace_back("pretokenizers", std::move(parts));
  return o;
}

json::Value BpeModel() {
  json::Object vocab;
  int id = 0;
  for (std::string& token : SpecialTokens()) vocab.emplace_back(std::move(token), id++);
  const auto symbols = ByteSymbols();
  for (const int byte : BytesInIdOrder()) vocab.emplace_back(symbols[static_cast<size_t>(byte)], id++);
  json::Array merges;
  for (const Pair& pair : Merges()) {
    vocab.emplace_back(pair.first + pair.second, id++);
    merges.emplace_back(pair.first + " " + pair.second);
  }
  json::Object o;
  o.emplace_back("type", "BPE");
  o.emplace_back("dropout", nullptr);
  o.emplace_back("unk_token", nullptr);
  o.emplace_back("continuing_subword_prefix", nullptr);
  o.emplace_back("end_of_word_suffix", nullptr);
  o.emplace_back("fuse_unk", false);
  o.emplace_back("byte_fallback", false);
  o.emplace_back("vocab", std::move(vocab));
  o.emplace_back("merges", std::move(merges));
  return o;
}

/// norm() of checkpoint.md §9.1 for ASCII text.
std::string NormaliseAscii(const std::string& text) {
  std::string out;
  bool blank = false;
  for (const char c : text) {
    const bool collapses = c == ' ' || c == '\t' || c == '\r' || c == '\n';
    if (!collapses) {
      out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    } else if (!blank) {
      out += ' ';
    }
    blank = collapses;
  }
  if (out == " ") return out;
  const auto is_space = [](char c) { return c == ' ' || (c >= 0x09 && c <= 0x0D); };
  while (!out.empty() && is_space(out.front())) out.erase(0, 1);
  while (!out.empty() && is_space(out.back())) out.pop_back();
  return out;
}

}  // namespace

std::string SyntheticTokenizerJson() {
  json::Array added;
  int id = 0;
  for (const std::string& token : SpecialTokens()) {
    added.push_back(AddedTokenJson(id++, {.content = token, .normalized = false, .special = true}));
  }
  id += 256 + kNumMerges;
  for (const AddedToken& token : AddedTokens()) added.push_back(AddedTokenJson(id++, token));

  json::Object root;
  root.emplace_back("version", "1.0");
  root.emplace_back("truncation", nullptr);
  root.emplace_back("padding", nullptr);
  root.emplace_back("added_tokens", std::move(added));
  root.emplace_back("normalizer", json::Object{{"type", "Sequence"}, {"normalizers", json::Array{}}});
  root.emplace_back("pre_tokenizer", PreTokenizer());
  root.emplace_back("post_processor", ByteLevel(true, false, true));
  root.emplace_back("decoder", ByteLevel(true, true, true));
  root.emplace_back("model", BpeModel());
  return json::Serialize(root, 2) + "\n";
}

std::string SyntheticTokenizerConfigJson() {
  json::Object root;
  root.emplace_back("add_bos_token", false);
  root.emplace_back("add_eos_token", false);
  root.emplace_back("bos_token", SpecialTokens()[0]);
  root.emplace_back("eos_token", SpecialTokens()[1]);
  root.emplace_back("pad_token", SpecialTokens()[1]);
  root.emplace_back("unk_token", nullptr);
  root.emplace_back("clean_up_tokenization_spaces", false);
  root.emplace_back("legacy", true);
  root.emplace_back("model_max_length", 1048576);
  root.emplace_back("tokenizer_class", "PreTrainedTokenizerFast");
  return json::Serialize(root, 2) + "\n";
}

std::vector<int32_t> SyntheticTokenMap() {
  std::map<std::string, int32_t> classes;
  std::vector<int32_t> map;
  const auto add = [&](const std::string& key) {
    map.push_back(classes.emplace(key, static_cast<int32_t>(classes.size())).first->second);
  };
  // A prefix keeps keys of different kinds apart; within a kind equal keys share a class.
  for (const std::string& token : SpecialTokens()) add("special " + token);
  for (const int byte : BytesInIdOrder()) {
    if (byte >= 0x80) {
      add("symbol " + std::to_string(byte));  // no valid text on its own: the raw symbol is the key
      continue;
    }
    const std::string text(1, static_cast<char>(byte));
    const std::string key = NormaliseAscii(text);
    add("text " + (key.empty() ? text : key));
  }
  const std::string blank = ByteSymbols()[' '];
  for (const Pair& pair : Merges()) {
    std::string text = pair.first + pair.second;
    if (text.starts_with(blank)) text.replace(0, blank.size(), " ");
    add("text " + NormaliseAscii(text));
  }
  for (const AddedToken& token : AddedTokens()) add("added " + token.content);
  return map;
}

}  // namespace deepinfer
