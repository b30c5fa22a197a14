#include "sim/page/assembly.h"

#include <fmt/format.h>

#include <array>
#include <fstream>
#include <iterator>
#include <memory>
#include <string_view>

#include "sim/config/tree.h"

namespace foretrain::page {
namespace {

using report::Json;

// Where the template has room for the answer and for the words: the contents of two data blocks, once each.
constexpr std::string_view kAnswerPlace = "\"@answer@\"", kWordsPlace = "\"@words@\"";
constexpr std::array kLanguages = {"en", "zh"};

// A data block ends at the first "</script": without "<" there is none, nor a comment.
std::string in_data_block(std::string json) {
  constexpr std::string_view kEscaped = "\\u003c";
  for (std::size_t at = json.find('<'); at != std::string::npos; at = json.find('<', at + kEscaped.size())) {
    json.replace(at, 1, kEscaped);
  }
  return json;
}

std::string compact(const Json& json) {
  return in_data_block(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

Json words_of(const config::Node& node, Diagnostics& diagnostics) {
  Json words = Json::object();
  if (!node.is_map()) {
    diagnostics.error(node.position, message("must be a map of words"));
    return words;
  }
  for (const config::Node::Entry& entry : node.map()) {
    if (entry.value.is_scalar()) {
      words[entry.key] = entry.value.scalar();
    } else {
      words[entry.key] = words_of(entry.value, diagnostics);
    }
  }
  return words;
}

void put(std::string& html, std::string_view place, std::string_view text) {
  html.replace(html.find(place), place.size(), text);
}

}  // namespace

std::optional<Template> load_template(const DataFolder& data, Diagnostics& diagnostics) {
  Template page;
  const std::string path = data.path + "/configs/page/report.html";
  std::ifstream file(path, std::ios::binary);
  page.html.assign(std::istreambuf_iterator<char>(file), {});
  for (const std::string_view place : {kAnswerPlace, kWordsPlace}) {
    if (page.html.find(place) == std::string::npos) {
      diagnostics.error({std::make_shared<const std::string>(path)},
                        message("is not there or no page; tools/report-page makes it"));
      return std::nullopt;
    }
  }
  Json words = Json::object();
  for (const char* language : kLanguages) {
    const auto catalogue =
        config::parse_yaml_file(fmt::format("{}/configs/text/page-{}.yaml", data.path, language), diagnostics);
    if (catalogue) words[language] = words_of(*catalogue, diagnostics);
  }
  const std::string texts = data.path + "/configs/text/";
  const auto chinese = report::Words::load({texts + "zh.yaml", texts + "lessons-zh.yaml"}, diagnostics);
  if (!chinese || diagnostics.has_errors()) return std::nullopt;
  page.chinese = *chinese;
  page.words = compact(words);
  return page;
}

void Sentences::add_remarks(const CaseReport& report) {
  for (const Message& warning : report.warnings) add(warning);
  for (const Message& warning : report.subject.warnings) add(warning);
  for (const Message& assumption : report.subject.assumptions) add(assumption);
}

std::string assembled(const Template& page, const std::string& kind, Json answer, const std::vector<Finding>& findings,
                      Sentences sentences, Json view, const Origin& origin) {
  Json found = Json::array();
  for (const Finding& finding : findings) {
    sentences.add(finding.said);
    for (const Message& reason : finding.reasons) sentences.add(reason);
    found.push_back({{"said", finding.said.english()}, {"reasons", english(finding.reasons)}});
  }
  Json about = {{"kind", kind},
                {"findings", std::move(found)},
                {"command", origin.command},
                {"version", origin.version},
                {"language", report::or_null(origin.language)},
                {"sentences", sentences.json()}};
  about.update(view);
  answer["view"] = std::move(about);
  std::string html = page.html;
  put(html, kWordsPlace, page.words);
  put(html, kAnswerPlace, compact(answer));
  return html;
}

}  // namespace foretrain::page
