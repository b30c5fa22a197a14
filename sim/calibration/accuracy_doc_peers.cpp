#include "sim/calibration/accuracy_doc.h"
#include "sim/config/reader.h"

namespace foretrain {

std::optional<std::vector<Peer>> load_peers(const std::string& path, Diagnostics& diagnostics) {
  const int errors_before = diagnostics.error_count();
  const auto document = config::parse_yaml_file(path, diagnostics);
  if (!document) return std::nullopt;
  std::vector<Peer> peers;
  config::MapReader file(*document, diagnostics, "peers");
  if (const config::Node* list = file.node("peers"); list == nullptr || !list->is_sequence()) {
    file.error("peers", message("peers must be a list of {{predictor, kind, error, rows, settings, sources, url}}"));
  } else {
    for (const config::Node& item : list->sequence()) {
      config::MapReader map(item, diagnostics, "peer");
      Peer peer;
      peer.predictor = map.required_text("predictor");
      peer.claimed = map.choice("kind", {"claimed", "run"}).value_or(0) == 0;
      peer.error = map.required_number("error", config::Unit::count, {0, 1e6}) / 100;
      peer.rows = map.required_text("rows");
      peer.settings = map.required_text("settings");
      peer.sources = map.text_list("sources").value_or(std::vector<std::string>());
      peer.url = map.required_text("url");
      map.finish();
      peers.push_back(std::move(peer));
    }
  }
  file.finish();
  if (diagnostics.error_count() > errors_before) return std::nullopt;
  return peers;
}

}  // namespace foretrain
