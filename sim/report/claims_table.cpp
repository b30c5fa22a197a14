#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>

#include "sim/report/claims_report.h"
#include "sim/report/describe.h"
#include "sim/report/figures.h"

namespace foretrain::report {
namespace {

using config::Unit;

std::string bound_text(double value, Unit unit) {
  if (unit == Unit::bytes) return fmt::format("{:g} GB", value / kGiga);
  if (unit == Unit::bytes_rate) return fmt::format("{:g} GB/s", value / kGiga);
  if (unit == Unit::seconds) return fmt::format("{:g} s", value);
  return std::abs(value) >= 1e4 ? grouped(value) : fmt::format("{:g}", value);
}

Message claimed_text(const Check& check) {
  if (check.kind == Check::Kind::fits) return message("fits");
  if (check.kind == Check::Kind::out_of_memory) return message("does not fit");
  if (check.kind == Check::Kind::ascending) return fmt::format("{}", fmt::join(check.cases, " < "));
  if (check.kind == Check::Kind::descending) return fmt::format("{}", fmt::join(check.cases, " > "));
  const Unit unit = unit_of(check);
  if (!std::isfinite(check.high)) return message("at least {}", bound_text(check.low, unit));
  if (!std::isfinite(check.low)) return message("at most {}", bound_text(check.high, unit));
  if (check.low == check.high) return bound_text(check.low, unit);
  return message("{} to {}", bound_text(check.low, unit), bound_text(check.high, unit));
}

std::string simulated_text(const Check& check, const JudgedCheck& judged, const Words& words) {
  if (!judged.outcome) return fmt::format("{}", fmt::join(judged.waits_for, ", "));
  if (check.has_range()) return figure_text(judged.outcome->figure, unit_of(check));
  const bool fitting = check.kind == Check::Kind::fits || check.kind == Check::Kind::out_of_memory;
  std::string text;
  for (const double value : judged.outcome->of_cases) {
    if (!text.empty()) text += ", ";
    text += fitting ? words("{} % of memory", fmt::format("{:.0f}", 100 * value)) : figure_text(value, unit_of(check));
  }
  return text;
}

struct Row {
  std::string condition, claimed, simulated, holds;
  Style style = Style::plain;
};

Row row_of(const Check& check, const JudgedCheck& judged, const Words& words) {
  Row row{check.when.empty() ? words(description_of(check)) : words.text(check.when), words(claimed_text(check)),
          simulated_text(check, judged, words), "?", Style::faint};
  if (judged.outcome) {
    row.holds = judged.outcome->holds ? words("yes") : words("no");
    row.style = judged.outcome->holds ? Style::good : Style::bad;
  }
  return row;
}

std::string padded(const std::string& text, int width) {
  const std::string shown = cut(printable(text), width);
  return shown + std::string(static_cast<std::size_t>(std::max(0, width - display_width(shown))), ' ');
}

std::vector<std::string> lines_of(const std::string& text, int width) {
  std::vector<std::string> lines;
  std::istringstream stream(wrapped(text, width, 0));
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// A check is one line, or as many as its longest column takes.
std::string rows_text(const std::vector<Row>& rows, const Terminal& terminal) {
  constexpr int kMargin = 4, kGaps = 6, kYesOrNo = 3;
  int claimed = 0, simulated = 0;
  for (const Row& row : rows) {
    claimed = std::max(claimed, display_width(printable(row.claimed)));
    simulated = std::max(simulated, display_width(printable(row.simulated)));
  }
  const int room = std::max(30, terminal.width - kMargin - kGaps - kYesOrNo);
  claimed = std::min(claimed, room / 4);
  simulated = std::min(simulated, room / 4);
  const int condition = room - claimed - simulated;
  std::string text;
  for (const Row& row : rows) {
    const std::array columns = {lines_of(row.condition, condition), lines_of(row.claimed, claimed),
                                lines_of(row.simulated, simulated)};
    const std::size_t height = std::max({columns[0].size(), columns[1].size(), columns[2].size()});
    const auto cell = [&](std::size_t column, std::size_t line, int width) {
      return padded(line < columns[column].size() ? columns[column][line] : "", width);
    };
    for (std::size_t i = 0; i < height; ++i) {
      std::string line =
          fmt::format("    {}  {}  {}", cell(0, i, condition), cell(1, i, claimed), cell(2, i, simulated));
      if (i == 0) line += "  " + styled(row.holds, row.style, terminal);
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + "\n";
    }
  }
  return text;
}

Style style_of(ClaimVerdict verdict) {
  switch (verdict) {
    case ClaimVerdict::confirmed:
      return Style::good;
    case ClaimVerdict::wrong:
      return Style::bad;
    case ClaimVerdict::depends:
      return Style::bold;
    case ClaimVerdict::not_judged:
    case ClaimVerdict::out_of_scope:
      return Style::faint;
  }
  return Style::plain;
}

std::string claim_text(const JudgedClaim& judged, const Terminal& terminal) {
  const Words& words = terminal.words;
  std::string name = judged.claim->id;
  if (judged.claim->tolerance > 0 && !judged.checks.empty()) {
    name = words("{} (ranges widened by {} %)", name, fmt::format("{:g}", 100 * judged.claim->tolerance));
  }
  std::string text =
      fmt::format("{}  {}\n", styled(words.term(to_string(judged.verdict)), style_of(judged.verdict), terminal),
                  styled(printable(name), Style::faint, terminal));
  text += wrapped("  " + printable(words.text(judged.claim->says)), terminal.width, 2) + "\n";
  std::vector<Row> rows;
  for (std::size_t i = 0; i < judged.checks.size(); ++i) {
    rows.push_back(row_of(judged.claim->checks[i], judged.checks[i], words));
  }
  text += rows_text(rows, terminal);
  for (const Check& check : judged.claim->checks) {
    if (!check.missed.empty())
      text += wrapped("    " + words("known miss: {}", check.missed), terminal.width, 4) + "\n";
  }
  const bool why_is_new = judged.checks.empty() || judged.verdict == ClaimVerdict::out_of_scope;
  if (const std::string why = words(because_of(judged, words)); why_is_new && !why.empty()) {
    text += wrapped("    " + why, terminal.width, 4) + "\n";
  }
  return text;
}

std::string summary_text(std::span<const JudgedClaim> claims, const Terminal& terminal) {
  std::vector<Message> counts;
  for (const ClaimVerdict verdict : kClaimVerdicts) {
    const auto count = std::count_if(claims.begin(), claims.end(), [&](const auto& c) { return c.verdict == verdict; });
    if (count > 0) counts.push_back(message("{} {}", count, terminal.words.term(to_string(verdict))));
  }
  return wrapped(terminal.words("{} claims: {}", claims.size(), listed(counts)), terminal.width, 2) + "\n";
}

bool is_judged(const JudgedClaim& claim) {
  return claim.verdict != ClaimVerdict::not_judged && claim.verdict != ClaimVerdict::out_of_scope;
}

}  // namespace

std::string claims_table(std::span<const JudgedClaim> claims, const Terminal& terminal, bool every_claim) {
  std::string text = summary_text(claims, terminal), open;
  for (const JudgedClaim& claim : claims) {
    if (every_claim || is_judged(claim)) {
      text += "\n" + claim_text(claim, terminal);
    } else {
      const Words& words = terminal.words;
      open += wrapped("  " + words("{}: {}: {}", claim.claim->id, words.term(to_string(claim.verdict)),
                                   because_of(claim, words)),
                      terminal.width, 4) +
              "\n";
    }
  }
  if (!open.empty())
    text +=
        "\n" + styled(terminal.words("not judged (--all shows them in full)"), Style::faint, terminal) + "\n" + open;
  return text;
}

}  // namespace foretrain::report
