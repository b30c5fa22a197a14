#include "sim/plan/optimizer.h"

#include <algorithm>
#include <array>

#include "sim/plan/plan.h"

namespace foretrain {
namespace {

// One optimizer beside AdamW, which software profiles describe.
struct Traits {
  const char* name;
  double moments;       // states as large as the parameters; AdamW has two
  double moment_bytes;  // of an element of them; 0: as the framework keeps AdamW's
  double traffic;       // of AdamW's bytes moved: passes over weight, gradient and states, AdamW's being 7
  double own_traffic;   // bytes a parameter of a kernel that is the same in every framework; 0: by `traffic`
};

// 8-bit states carry an fp32 scale for every block of 256 (bitsandbytes 0.44; 2048 before); the fused kernel reads and
// writes 14 to 18 bytes a parameter (study of measured kernels). Lion has one moment (arXiv 2302.06675), LAMB two and
// the norms of weights and updates (arXiv 1904.00962). Adafactor keeps sums of rows and columns, less than 0.01 bytes
// a parameter, and passes over gradient and update twice (arXiv 1804.04235). SGD is without momentum. Muon has a
// momentum; beside its products it reads and writes weight, gradient and momentum, and the update once more
// (github.com/ KellerJordan/Muon).
constexpr double kEightBit = 1.0 + 4.0 / 256.0;
constexpr std::array<Traits, 8> kTraits = {{
    {"adamw", 2, 0, 1.0, 0},
    {"adamw8bit", 2, kEightBit, 1.0, 16},
    {"paged-adamw8bit", 2, kEightBit, 1.0, 16},
    {"sgd", 0, 0, 0.5, 0},
    {"lion", 1, 0, 5.0 / 7.0, 0},
    {"lamb", 2, 0, 10.0 / 7.0, 0},
    {"adafactor", 0, 0, 1.0, 0},
    {"muon", 1, 0, 1.0, 0},
}};

const Traits& traits_of(Optimizer optimizer) { return kTraits[static_cast<std::size_t>(optimizer)]; }

// Of the bytes of AdamW's state: two moments, in fp32 or narrower; what is left is a master copy of the weights.
double moment_bytes(double optimizer_bytes) { return optimizer_bytes >= 8 ? 4 : optimizer_bytes / 2; }

Software::StateBytes of_framework(const Software& software, const Train& train, int zero) {
  return software.state_bytes(zero, train.precision == Precision::bf16, train.precision == Precision::fp16);
}

bool keeps_wide_states(const Software::StateBytes& state) { return state.weights >= 4 || state.optimizer >= 8; }

}  // namespace

const char* to_string(Optimizer optimizer) { return traits_of(optimizer).name; }

Software::StateBytes state_bytes(const Software& software, const Train& train, int zero) {
  Software::StateBytes state = of_framework(software, train, zero);
  if (train.master_weights == MasterWeights::none) {
    // What a step adds while it runs is copies of the states, now 16-bit as well.
    state = {2, 2, 4, std::min(state.step_extra, 2.0)};
  } else if (train.master_weights == MasterWeights::fp32 && !keeps_wide_states(state)) {
    state.optimizer = 12;
  }
  if (train.optimizer == Optimizer::adamw) return state;
  const Traits& traits = traits_of(train.optimizer);
  const double moment = moment_bytes(state.optimizer);
  // In an fp32 run there is no master copy beside the weights.
  const double master = element_bytes(train.precision) >= 4 ? 0 : state.optimizer - 2 * moment;
  const double element = traits.moment_bytes > 0 ? traits.moment_bytes : moment;
  state.optimizer = std::max(0.0, master + traits.moments * element);
  return state;
}

bool is_paged(Optimizer optimizer) { return optimizer == Optimizer::paged_adamw8bit; }

bool runs_on_host(Optimizer optimizer) { return optimizer == Optimizer::adamw || optimizer == Optimizer::sgd; }

TableStates extra_table_states(const Software& software, const Train& train, int zero) {
  if (train.optimizer == Optimizer::muon) {
    Train adamw = train;
    adamw.optimizer = Optimizer::adamw;
    const double more = state_bytes(software, adamw, zero).optimizer - state_bytes(software, train, zero).optimizer;
    return {more, more};
  }
  const Traits& traits = traits_of(train.optimizer);
  return {traits.moment_bytes > 0 ? traits.moments * (4 - traits.moment_bytes) : 0, 0};
}

double optimizer_traffic_bytes(const Software& software, const Train& train, int zero) {
  const Traits& traits = traits_of(train.optimizer);
  if (traits.own_traffic > 0) return traits.own_traffic;
  const bool narrowed =
      train.master_weights == MasterWeights::none && keeps_wide_states(of_framework(software, train, zero));
  return software.optimizer_traffic_bytes * traits.traffic * (narrowed ? 0.5 : 1.0);
}

}  // namespace foretrain
