#include "sim/software/software.h"

#include <algorithm>
#include <limits>

namespace foretrain {

Software::StateBytes Software::state_bytes(int zero, bool bf16, bool fp16) const {
  if (zero == 0 && fp16 && state_zero0_fp16) return *state_zero0_fp16;
  if (zero == 0 && state_zero0) return *state_zero0;
  if (zero == 3 && state_zero3) return *state_zero3;
  const double gradients = bf16 ? bf16_gradient_store_bytes.value_or(gradient_store_bytes) : gradient_store_bytes;
  return {weight_bytes, gradients, optimizer_bytes, step_extra_bytes};
}

bool Software::reduces_whole_gradients(int zero) const {
  return zero == 0 || (zero == 1 && zero1_all_reduce) || (zero == 2 && zero2_all_reduce);
}

double Software::gradient_bucket_bytes(int data_parallel_ranks, bool overlapped) const {
  if (one_bucket_without_overlap && !overlapped) return std::numeric_limits<double>::infinity();
  return std::max(bucket_bytes, bucket_bytes_per_rank * data_parallel_ranks);
}

}  // namespace foretrain
