#include "sim/page/assembly.h"

namespace foretrain::page {

using report::Json;

std::string rent_page(const RentQuestion& question, const RentAnswer& answer, const Template& page,
                      const Origin& origin) {
  Sentences sentences(page.chinese);
  Json machines = Json::array();
  for (const RentCandidate& candidate : answer.candidates) {
    const Message machine = report::rented(question, candidate);
    machines.push_back(machine.english());
    sentences.add(machine);
    sentences.add(candidate.why_not);
  }
  return assembled(page, "rent", taken_up(report::rent_json(question, answer)),
                   {{report::rent_verdict(question, answer)}}, std::move(sentences),
                   {{"machines", std::move(machines)}}, origin);
}

}  // namespace foretrain::page
