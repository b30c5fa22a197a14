#include <algorithm>

#include "sim/plan/rules.h"

namespace foretrain {

std::int64_t natural_chunks(const PlanRequest& request) {
  return request.schedule && goes_there_and_back(*request.schedule) ? 2 : 1;
}

PipelineSchedule choose_schedule(const Question& q) {
  const PipelineSchedule natural = q.vpp > 1 ? PipelineSchedule::interleaved : PipelineSchedule::one_f_one_b;
  const PipelineSchedule schedule = q.request.schedule.value_or(natural);
  const char* name = to_string(schedule);
  if (goes_there_and_back(schedule)) {
    if (q.pp == 1) {
      q.error("schedule", message("schedule {} needs a pipeline, and pp is 1; legal with pp=1: 1f1b, gpipe", name));
    } else if (q.vpp != 2) {
      q.error("vpp", message("schedule {} runs two chunks a stage, and vpp is {}; legal: vpp=2", name, q.vpp));
    } else if (schedule == PipelineSchedule::dualpipe && q.pp % 2 != 0) {
      q.error("pp", message("schedule dualpipe pairs its stages, and pp={} is odd; legal: an even pp, or schedule "
                            "dualpipe-v",
                            q.pp));
    }
  } else if (schedule == PipelineSchedule::interleaved && q.vpp == 1) {
    const std::int64_t most = q.pp > 0 ? q.model.layers / q.pp : 1;
    q.error("schedule",
            q.pp > 1 ? message("schedule interleaved needs vpp of 2 or more; legal vpp: 2 to {}", most)
                     : message("schedule interleaved needs pp and vpp of 2 or more; legal with pp=1: 1f1b, gpipe"));
  } else if (schedule != PipelineSchedule::interleaved && q.vpp > 1) {
    q.error("schedule",
            message("schedule {} cannot run vpp={} chunks a stage; legal: interleaved, or vpp=1", name, q.vpp));
  }
  return schedule;
}

void check_pipeline(const Question& q) {
  const std::int64_t layers = q.model.layers, ends = q.request.ends_as_layers.value_or(0);
  const bool two_copies = q.request.schedule == PipelineSchedule::dualpipe;
  const std::int64_t chunks = two_copies ? q.pp : q.pp * q.vpp;
  if (q.request.layers) {
    std::int64_t sum = 0;
    for (std::int64_t n : *q.request.layers) sum += n;
    if (static_cast<std::int64_t>(q.request.layers->size()) != chunks || sum != layers) {
      q.error("layers", message("layers lists {} chunks with {} layers in all; legal: {} chunks (pp={}{}) with the "
                                "model's {} layers",
                                q.request.layers->size(), sum, chunks, q.pp,
                                q.vpp > 1 && !two_copies ? fmt::format(" x vpp={}", q.vpp) : "", layers));
    } else if (ends > 0) {
      q.error("ends_as_layers",
              message("ends_as_layers spreads the layers that plan.layers already deals out; write one of them"));
    }
  } else if (q.pp > layers) {
    const auto legal = only(divisors(q.cluster.gpus),
                            [&](std::int64_t pp) { return pp <= layers && q.cluster.gpus / pp % q.tp == 0; });
    q.error("pp", message("pp={} is more than the {} layers; legal: {}", q.pp, layers, listed(legal)));
  } else if (q.vpp > 1 && q.pp == 1) {
    q.error("vpp", message("vpp={} needs a pipeline, and pp is 1; legal: vpp=1, or pp of 2 or more", q.vpp));
  } else if (chunks > layers + ends) {
    const Message counted = ends > 0 ? message(" and {} ends", ends) : Message();
    q.error("vpp", message("pp={} x vpp={} = {} chunks are more than the {} layers{}; legal vpp: 1 to {}", q.pp, q.vpp,
                           chunks, layers, counted, (layers + ends) / q.pp));
  }
}

void check_batch(const Question& q, const Plan& plan) {
  const std::int64_t batch = q.train.global_batch, step = q.dp * q.micro_batch;
  if (batch == 0 || q.request.splits_unevenly()) return;
  const auto legal_micro_batches = [&] {
    if (batch % q.dp != 0) return message("none with this dp");
    const std::int64_t share = batch / q.dp;
    return Message(
        listed(only(divisors(share), [&](std::int64_t size) { return feeds_schedule(plan, share / size); })));
  };
  const auto nearest = [batch](std::int64_t multiple) {
    const std::int64_t below = batch / multiple * multiple;
    return below == 0 ? message("{}", multiple) : message("{} or {}", below, below + multiple);
  };
  if (batch % step != 0) {
    const auto legal_dp =
        only(divisors(q.cluster.gpus), [&](std::int64_t dp) { return batch % (dp * q.micro_batch) == 0; });
    q.error("micro_batch",
            message("global_batch={} is no multiple of dp={} x micro_batch={} = {}; legal micro_batch: {}; legal dp: "
                    "{}; legal global_batch: {}",
                    batch, q.dp, q.micro_batch, step, legal_micro_batches(), listed(legal_dp), nearest(step)));
  } else if (!q.request.micro_batch_auto && batch / step > kMostLayerPasses / q.model.layers) {
    const std::int64_t most = kMostLayerPasses / q.model.layers;
    q.error("micro_batch",
            message("global_batch={} makes {} micro-batches a step; at most {} of {} layers are simulated; use a "
                    "larger micro_batch, or a smaller global_batch",
                    batch, batch / step, most, q.model.layers));
  } else if (!q.request.micro_batch_auto && !feeds_schedule(plan, batch / step)) {
    const bool even = plan.schedule == PipelineSchedule::dualpipe;
    q.error("micro_batch",
            even ? message("schedule {} needs an even number of micro-batches, 2 x pp={} or more, and global_batch={} "
                           "gives {}; legal micro_batch: {}",
                           to_string(plan.schedule), 2 * q.pp, batch, batch / step, legal_micro_batches())
                 : message("schedule {} needs 2 x pp={} micro-batches or more, and global_batch={} gives {}; legal "
                           "micro_batch: {}",
                           to_string(plan.schedule), 2 * q.pp, batch, batch / step, legal_micro_batches()));
  } else if (plan.schedule == PipelineSchedule::interleaved && batch / step % q.pp != 0) {
    q.warning("micro_batch", message("{} micro-batches are no multiple of pp={}: Megatron-LM refuses that for the "
                                     "interleaved schedule; simulated in uneven groups, as PyTorch runs it",
                                     batch / step, q.pp));
  }
}

}  // namespace foretrain
