#include "sim/analysis/run_log.h"

#include <doctest/doctest.h>

#include <random>
#include <string>

using namespace foretrain;
using doctest::Approx;

namespace {

double stated(const std::string& text, LogFigure figure) {
  const auto value = read_run_log(text)[figure];
  REQUIRE_MESSAGE(value, text);
  return *value;
}

}  // namespace

TEST_CASE("progress bars: seconds an iteration, or iterations a second") {
  CHECK(stated("  0%|  | 5/3527 [04:17<63:50:18, 65.25s/it]", LogFigure::iteration_s) == Approx(65.25));
  CHECK(stated("100%|##| 30/30 [00:15<00:00,  1.93it/s]", LogFigure::iteration_s) == Approx(1 / 1.93));
  CHECK(stated("train_speed(iter/s): 0.194", LogFigure::iteration_s) == Approx(1 / 0.194));
  // A bar is drawn over and over on one line; the median is what counts.
  CHECK(stated("1/9 [9.0s/it]\r2/9 [2.0s/it]\r3/9 [2.1s/it]", LogFigure::iteration_s) == Approx(2.1));
}

TEST_CASE("DeepSpeed's wall-clock breakdown, in milliseconds") {
  const RunLog log = read_run_log(
      "[Rank 0] time (ms) | forward: 207.71 | backward: 3509.10 | backward_inner: 3400.2 | backward_allreduce: 108.7 | "
      "step: 49.45");
  CHECK(*log[LogFigure::forward_s] == Approx(0.20771));
  CHECK(*log[LogFigure::backward_s] == Approx(3.5091));
  CHECK(*log[LogFigure::optimizer_s] == Approx(0.04945));
  CHECK_FALSE(read_run_log("time (ms) | forward_microstep: 207.71 | step_microstep: 1.2")[LogFigure::forward_s]);
  CHECK(stated("RunningAvgSamplesPerSec=3.1, CurrSamplesPerSec=3.25, MemAllocated=9.0GB, MaxMemAllocated=21.5GB",
               LogFigure::samples_per_s) == Approx(3.25));
  CHECK(stated("MaxMemAllocated=21.5GB", LogFigure::memory_bytes) == Approx(21.5e9));
}

TEST_CASE("Megatron, Hugging Face, torchtitan and LLM Foundry lines") {
  const std::string megatron =
      " iteration       30/  500000 | consumed samples: 15360 | elapsed time per iteration (ms): 12345.6 | throughput "
      "per GPU (TFLOP/s/GPU): 150.2 | learning rate: 1.0E-05 | global batch size:   512 | lm loss: 9.1E+00 |";
  CHECK(stated(megatron, LogFigure::step_s) == Approx(12.3456));
  CHECK(stated(megatron, LogFigure::tflops_per_gpu) == Approx(150.2));
  const std::string trainer =
      "{'train_runtime': 1234.5, 'train_samples_per_second': 12.44, 'train_steps_per_second': 0.194, 'epoch': 1.0}";
  CHECK(stated(trainer, LogFigure::samples_per_s) == Approx(12.44));
  CHECK(stated(trainer, LogFigure::step_s) == Approx(1 / 0.194));
  const std::string titan =
      "step: 10  loss:  7.1  grad_norm:  1.2  memory: 47.02GiB(49.52%)  tps: 5,762  tflops: 309.1  mfu: 31.26%";
  CHECK(stated(titan, LogFigure::tokens_per_s_per_gpu) == Approx(5762));
  CHECK(stated(titan, LogFigure::tflops_per_gpu) == Approx(309.1));
  CHECK(stated(titan, LogFigure::mfu) == Approx(0.3126));
  CHECK(stated("Train throughput/device/mfu: 0.4123", LogFigure::mfu) == Approx(0.4123));
  CHECK(stated("Train throughput/device/tokens_per_sec: 2211.5", LogFigure::tokens_per_s_per_gpu) == Approx(2211.5));
  CHECK(stated("Train throughput/tokens_per_sec: 17692.0", LogFigure::tokens_per_s) == Approx(17692));
}

TEST_CASE("out-of-memory sentences, old and new") {
  const auto old =
      read_run_log(
          "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 39.59 GiB total capacity; "
          "36.60 GiB already allocated; 1.18 GiB free; 37.40 GiB reserved in total by PyTorch) If reserved "
          "memory is >> allocated memory try setting max_split_size_mb")
          .out_of_memory;
  REQUIRE(old);
  CHECK(old->tried.value == Approx(2 * kGiB));
  CHECK(old->capacity->value == Approx(39.59 * kGiB));
  CHECK(old->allocated->value == Approx(36.60 * kGiB));
  CHECK(old->free->value == Approx(1.18 * kGiB));
  CHECK(old->reserved_unallocated->value == Approx(0.80 * kGiB));
  const auto recent =
      read_run_log(
          "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB. GPU 3 has a total "
          "capacity of 79.15 GiB of which 190.12 MiB is free. Including non-PyTorch memory, this process "
          "has 77.96 GiB memory in use. Of the allocated memory 70.30 GiB is allocated by PyTorch, and "
          "6.20 GiB is reserved by PyTorch but unallocated.")
          .out_of_memory;
  REQUIRE(recent);
  CHECK(recent->tried.value == Approx(512 * kMiB));
  CHECK(recent->capacity->value == Approx(79.15 * kGiB));
  CHECK(recent->free->value == Approx(190.12 * kMiB));
  CHECK(recent->in_use->value == Approx(77.96 * kGiB));
  CHECK(recent->allocated->value == Approx(70.30 * kGiB));
  CHECK(recent->reserved_unallocated->value == Approx(6.20 * kGiB));
}

TEST_CASE("what states no speed is passed over") {
  for (const std::string text :
       {"", "loss 1.5", "s/it", "it/s", "nans/it", "-3s/it", "0s/it", "1e999s/it", "1e400 tps:", "tps: nan", "tps: -5",
        "tps: 1e300", "mfu: abc", "12s/items", "forward: 12", "Tried to allocate", "Tried to allocate lots",
        "Tried to allocate 2.00 parsecs", "my_tps: 5"}) {
    CAPTURE(text);
    CHECK(read_run_log(text).empty());
  }
}

TEST_CASE("hostile text does no harm") {
  std::mt19937 random(7);
  const std::string pieces[] = {"s/it",
                                "it/s",
                                "tps: ",
                                "1,",
                                "9",
                                ".",
                                "e",
                                "-",
                                "|",
                                "forward: ",
                                "backward: ",
                                "step: ",
                                "Tried to allocate ",
                                "GiB",
                                " is free",
                                " memory in use",
                                "\r",
                                "\n",
                                "\x00",
                                "\xff",
                                "(",
                                "mfu:"};
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (int i = 0; i < 40; ++i) text += pieces[random() % std::size(pieces)];
    const RunLog log = read_run_log(text);
    for (const auto& figure : log.figures) {
      if (!figure) continue;
      CHECK(*figure > 0);
      CHECK(*figure < 1e19);
    }
  }
  CHECK(read_run_log(std::string(1 << 20, '9') + "s/it").empty());  // beyond what is read of a line
  CHECK(*read_run_log(std::string(1 << 20, ',') + "\n2s/it")[LogFigure::iteration_s] == 2);
}
