#include "sim/scenario/scenario.h"

namespace foretrain {

Case with_share(Case subject, Plan::Share share) {
  subject.plan.shares.clear();
  subject.plan.micro_batch = share.micro_batch;
  subject.train.global_batch = share.sequences() * subject.plan.dp;
  return subject;
}

}  // namespace foretrain
