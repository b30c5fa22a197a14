#include "sim/cost/kernel.h"

#include <doctest/doctest.h>

#include <cmath>
#include <stdexcept>
#include <vector>

namespace foretrain {
namespace {

// Cards built by hand: the datasheet, and the achieved rates of the study whose predictions are checked here.
Gpu card(std::string name, std::string architecture, double bf16_tflops, double gbps, int sms, double eta,
         double floor_us) {
  Gpu gpu;
  gpu.name = std::move(name);
  gpu.architecture = std::move(architecture);
  gpu.memory_bandwidth = gigabytes_per_second(gbps);
  gpu.sm_count = sms;
  gpu.dense_rate[static_cast<std::size_t>(Precision::fp32)] = FlopsPerSecond{bf16_tflops * 1e12 / 16};
  gpu.dense_rate[static_cast<std::size_t>(Precision::fp16)] = FlopsPerSecond{bf16_tflops * 1e12};
  gpu.dense_rate[static_cast<std::size_t>(Precision::bf16)] = FlopsPerSecond{bf16_tflops * 1e12};
  gpu.achieved.matmul.fill(eta);
  gpu.achieved.memory = 0.9;
  gpu.achieved.kernel_floor = microseconds(floor_us);
  return gpu;
}

Gpu h100() {
  Gpu gpu = card("h100", "hopper", 989.4, 3350, 132, 0.80, 2);
  gpu.dense_rate[static_cast<std::size_t>(Precision::fp8)] = FlopsPerSecond{1978.9e12};
  gpu.achieved.flash[static_cast<std::size_t>(AttentionKernel::flash2)] = {0.396, 0.33, 400};
  gpu.achieved.flash[static_cast<std::size_t>(AttentionKernel::flash3)] = {0.66, 0.55, 400};
  gpu.nvlink.emplace();
  return gpu;
}

Gpu a100() {
  Gpu gpu = card("a100", "ampere", 312, 2039, 108, 0.84, 2);
  gpu.achieved.flash[static_cast<std::size_t>(AttentionKernel::flash2)] = {0.69, 0.55, 400};
  gpu.nvlink.emplace();
  return gpu;
}

double us(const KernelTime& time) { return time.total().value * 1e6; }

Gemm gemm(std::int64_t m, std::int64_t n, std::int64_t k) {
  Gemm g;
  g.m = m;
  g.n = n;
  g.k = k;
  return g;
}

const std::vector<std::int64_t> kExtents = {1, 7, 64, 65, 127, 128, 500, 1024, 4096, 4097, 11008, 28672, 131072};

TEST_CASE("matrix products reproduce the study's predictions") {
  const Gpu h = h100();
  CHECK(us(gemm_time(h, Precision::bf16, gemm(4096, 1024, 1024))) == doctest::Approx(14.99).epsilon(0.001));
  CHECK(us(gemm_time(h, Precision::bf16, gemm(8192, 4096, 4096))) == doctest::Approx(367.6).epsilon(0.001));
  CHECK(us(gemm_time(h, Precision::bf16, gemm(64, 4096, 7168))) == doctest::Approx(22.99).epsilon(0.001));
  Gemm gradient = gemm(1024, 1024, 16384);  // fp32 accumulation, split in two
  gradient.accumulate = true;
  gradient.output_bytes = 4;
  CHECK(us(gemm_time(h, Precision::bf16, gradient)) == doctest::Approx(56.17).epsilon(0.001));

  CHECK(us(gemm_time(a100(), Precision::bf16, gemm(8192, 11008, 4096))) == doctest::Approx(2902.6).epsilon(0.001));
  const Gpu pcie = card("a100-pcie", "ampere", 312, 1935, 108, 0.765, 5);
  CHECK(us(gemm_time(pcie, Precision::bf16, gemm(4096, 1536, 5120))) == doctest::Approx(296.3).epsilon(0.001));
  const Gpu b200 = card("b200", "blackwell", 2250, 8000, 148, 0.505, 2);
  CHECK(us(gemm_time(b200, Precision::bf16, gemm(4096, 8192, 28672))) == doctest::Approx(1713.7).epsilon(0.001));
  Gpu h800 = h100();
  h800.achieved.matmul[static_cast<std::size_t>(Precision::fp8)] = 0.727;
  h800.achieved.kernel_floor = microseconds(2.4);
  CHECK(us(gemm_time(h800, Precision::fp8, gemm(4096, 7168, 2048))) == doctest::Approx(114.3).epsilon(0.001));
}

TEST_CASE("matrix products are monotone and keep below the roofline") {
  for (const Gpu& gpu : {h100(), a100()}) {
    for (const std::int64_t m : kExtents) {
      for (const std::int64_t n : kExtents) {
        double shallower = 0;
        for (const std::int64_t k : kExtents) {
          const Gemm g = gemm(m, n, k);
          const KernelTime time = gemm_time(gpu, Precision::bf16, g);
          const double seconds = time.total().value;
          const double volume = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
          const double bytes =
              2.0 * (static_cast<double>(m) * static_cast<double>(k) + static_cast<double>(k) * static_cast<double>(n) +
                     static_cast<double>(m) * static_cast<double>(n));
          const double flops_rate = gpu.achieved.matmul[3] * gpu.dense(Precision::bf16)->value;
          CHECK(seconds > 2 * volume / flops_rate);
          CHECK(seconds > bytes / (0.9 * gpu.memory_bandwidth.value));
          CHECK(time.latency >= gpu.achieved.kernel_floor);
          CHECK(time.matmul.value > 0);
          CHECK(time.memory.value > 0);
          CHECK(seconds >= shallower * (1 - 1e-12));
          shallower = seconds;
          CHECK(gemm_time(gpu, Precision::bf16, gemm(m + 100, n, k)).total().value >= seconds * (1 - 1e-12));
          CHECK(gemm_time(gpu, Precision::bf16, gemm(m, n + 100, k)).total().value >= seconds * (1 - 1e-12));
          // M and N may be exchanged: the product is the same.
          CHECK(gemm_time(gpu, Precision::bf16, gemm(n, m, k)).total().value == doctest::Approx(seconds));
        }
      }
    }
  }
}

TEST_CASE("large matrix products approach the achieved rate") {
  const Gpu gpu = a100();
  const double seconds = gemm_time(gpu, Precision::bf16, gemm(65536, 65536, 65536)).total().value;
  const double ideal = 2 * std::pow(65536.0, 3) / (0.84 * 312e12);
  CHECK(seconds > ideal);
  CHECK(seconds < ideal * 1.01);
}

TEST_CASE("the parts of a kernel are its elasticities") {
  const double step = 1e-6;
  for (const auto& [m, n, k] :
       {std::array<std::int64_t, 3>{8192, 4096, 4096}, {64, 4096, 7168}, {1024, 1024, 512}, {4096, 4096, 64}}) {
    Gemm g = gemm(m, n, k);
    const Gpu gpu = h100();
    const KernelTime time = gemm_time(gpu, Precision::bf16, g);
    Gpu faster_matmul = gpu, faster_memory = gpu, faster_launch = gpu;
    faster_matmul.dense_rate[3] = *gpu.dense(Precision::bf16) * (1 + step);
    faster_memory.memory_bandwidth *= 1 + step;
    faster_launch.achieved.kernel_floor *= 1 / (1 + step);
    const auto gain = [&](const Gpu& faster) {
      return (time.total().value - gemm_time(faster, Precision::bf16, g).total().value) / step;
    };
    CHECK(gain(faster_matmul) == doctest::Approx(time.matmul.value).epsilon(1e-3));
    CHECK(gain(faster_memory) == doctest::Approx(time.memory.value).epsilon(1e-3));
    CHECK(gain(faster_launch) == doctest::Approx(time.latency.value).epsilon(1e-3));
  }
}

TEST_CASE("a batch of products shares the waves of one grid") {
  const Gpu gpu = h100();
  Gemm g = gemm(256, 256, 1024);
  const double one = gemm_time(gpu, Precision::bf16, g).total().value;
  g.batch = 64;
  const double all = gemm_time(gpu, Precision::bf16, g).total().value;
  CHECK(all > one);
  CHECK(all < 16 * one);
}

TEST_CASE("accumulating in fp32 costs more, off the tensor cores much more") {
  const Gpu gpu = a100();
  Gemm g = gemm(4096, 4096, 4096);
  const double plain = gemm_time(gpu, Precision::bf16, g).total().value;
  g.accumulate = true;
  g.output_bytes = 4;
  const double accumulated = gemm_time(gpu, Precision::bf16, g).total().value;
  CHECK(accumulated / plain > 1.03);
  CHECK(accumulated / plain < 1.10);  // measured: 1.05 on an A100

  // About 10 TFLOP/s for the scores of heads of 108 (model of hidden size 13824 with 128 heads).
  Gemm scores = gemm(2048, 2048, 108);
  scores.batch = 32;
  scores.unaligned = true;
  const double tflops = 2.0 * 32 * 2048 * 2048 * 108 / gemm_time(gpu, Precision::bf16, scores).total().value / 1e12;
  CHECK(tflops > 7);
  CHECK(tflops < 14);
}

TEST_CASE("a precision without a rate runs on the vector units") {
  Gpu gpu = a100();
  CHECK_FALSE(matrix_rate(gpu, Precision::bf16).emulated);
  gpu.dense_rate[static_cast<std::size_t>(Precision::bf16)].reset();
  CHECK(matrix_rate(gpu, Precision::bf16).emulated);
  CHECK(matrix_rate(gpu, Precision::bf16).datasheet.value == doctest::Approx(19.5e12));
  CHECK(gemm_time(gpu, Precision::bf16, gemm(4096, 4096, 4096)).total() >
        gemm_time(gpu, Precision::fp16, gemm(4096, 4096, 4096)).total() * 10);
  gpu.dense_rate = {};
  CHECK_THROWS_AS(matrix_rate(gpu, Precision::bf16), std::invalid_argument);
}

TEST_CASE("an empty product takes no time") {
  CHECK(us(gemm_time(h100(), Precision::bf16, gemm(0, 4096, 4096))) == 0);
  CHECK(us(gemm_time(h100(), Precision::bf16, gemm(4096, -1, 4096))) == 0);
}

TEST_CASE("huge extents neither overflow nor become infinite") {
  const std::int64_t huge = std::int64_t{1} << 40;
  const KernelTime time = gemm_time(h100(), Precision::bf16, gemm(huge, huge, huge));
  CHECK(std::isfinite(time.total().value));
  CHECK(time.total().value > 2 * std::pow(2.0, 120) / 989.4e12);
}

AttentionShape attention(std::int64_t batch, std::int64_t heads, std::int64_t seq, std::int64_t head_dim = 128) {
  AttentionShape shape;
  shape.batch = batch;
  shape.heads = heads;
  shape.seq = seq;
  shape.head_dim = head_dim;
  return shape;
}

TEST_CASE("flash attention keeps below its rate and approaches it") {
  for (const Gpu& gpu : {h100(), a100()}) {
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      double before = 0;
      for (const std::int64_t seq : {128, 512, 2048, 8192, 32768}) {
        const AttentionShape shape = attention(4, 32, seq);
        const double seconds =
            flash_attention_time(gpu, Precision::bf16, AttentionKernel::flash2, shape, pass).total().value;
        const bool forward = pass == Pass::forward;
        const AchievedRates::Attention& rates = gpu.achieved.flash[2];
        const double flops =
            2.0 * 4 * 32 * static_cast<double>(seq) * static_cast<double>(seq) * 128 * (forward ? 1.0 : 2.5);
        const double ideal = flops / (gpu.dense(Precision::bf16)->value * (forward ? rates.forward : rates.backward));
        CHECK(seconds > ideal);
        if (seq == 32768) CHECK(seconds < 1.05 * ideal);
        CHECK(seconds > before);
        before = seconds;
      }
    }
  }
}

TEST_CASE("few heads leave multiprocessors idle") {
  const Gpu gpu = h100();
  const auto seconds = [&](std::int64_t heads) {
    return flash_attention_time(gpu, Precision::bf16, AttentionKernel::flash3, attention(1, heads, 8192), Pass::forward)
        .total()
        .value;
  };
  CHECK(seconds(1) > seconds(64) / 64 * 2);  // the longest block rules
  CHECK(seconds(128) < seconds(64) * 2.0);   // and is hidden among many
  CHECK(seconds(128) > seconds(64) * 1.9);
  CHECK(seconds(2) > seconds(1));
}

TEST_CASE("flash attention: causal, backward, head dimension, fallback") {
  const Gpu gpu = h100();
  AttentionShape shape = attention(4, 32, 8192);
  const auto seconds = [&](Pass pass, AttentionKernel kernel = AttentionKernel::flash3) {
    return flash_attention_time(gpu, Precision::bf16, kernel, shape, pass).total().value;
  };
  const double causal = seconds(Pass::forward);
  CHECK(seconds(Pass::backward) / causal == doctest::Approx(2.5 * 0.66 / 0.55).epsilon(0.02));
  CHECK(seconds(Pass::forward, AttentionKernel::flash2) / causal == doctest::Approx(0.66 / 0.396).epsilon(0.01));
  // The flash1 figures are missing here: the nearest kernel stands in.
  CHECK(seconds(Pass::forward, AttentionKernel::flash1) == seconds(Pass::forward, AttentionKernel::flash2));
  shape.causal = false;
  CHECK(seconds(Pass::forward) / causal == doctest::Approx(2.0).epsilon(0.06));
  shape.causal = true;
  // Half the head dimension, half the work, at 0.8 of the rate on this architecture.
  shape.head_dim = 64;
  CHECK(seconds(Pass::forward) / causal == doctest::Approx(0.5 / 0.8).epsilon(0.02));
  // fp8 runs compute attention in bf16.
  CHECK(flash_attention_time(gpu, Precision::fp8, AttentionKernel::flash3, shape, Pass::forward).total().value ==
        seconds(Pass::forward));

  Gpu none = gpu;
  none.achieved.flash = {};
  CHECK_THROWS_AS(flash_attention_time(none, Precision::bf16, AttentionKernel::flash2, shape, Pass::forward),
                  std::invalid_argument);
}

TEST_CASE("standard attention moves its scores") {
  const Gpu gpu = a100();
  const AttentionShape shape = attention(2, 16, 2048, 96);
  const double scores = 2.0 * 16 * 2048 * 2048;
  const double bandwidth = 0.9 * 2039e9;
  const auto seconds = [&](Pass pass, bool fused) {
    return standard_attention_time(gpu, Precision::fp16, shape, pass, fused).total().value;
  };
  CHECK(seconds(Pass::forward, true) > scores * 12 / bandwidth);
  CHECK(seconds(Pass::backward, true) > scores * 24 / bandwidth);
  CHECK(seconds(Pass::forward, true) < seconds(Pass::backward, true));
  // Without fusion the scores are passed over three times as often, in three times the kernels.
  const double passes = scores * 12 / bandwidth + 2 * 2e-6;
  CHECK(seconds(Pass::forward, false) - seconds(Pass::forward, true) == doctest::Approx(2 * passes).epsilon(1e-6));
  // fp32 scores are twice as wide, but no softmax stands between casts: scale and mask are a kernel each that reads
  // and writes 4 bytes, in both passes.
  const auto wide = [&](Pass pass, bool fused) {
    return standard_attention_time(gpu, Precision::fp32, shape, pass, fused).total().value;
  };
  const double scale_and_mask = scores * 2 * 8 / bandwidth + 2 * 2e-6;
  CHECK(wide(Pass::forward, false) - wide(Pass::forward, true) == doctest::Approx(scale_and_mask).epsilon(1e-6));
  CHECK(wide(Pass::backward, false) - wide(Pass::backward, true) == doctest::Approx(scale_and_mask).epsilon(1e-6));
  // And all of it is slower than the fused kernel.
  CHECK(seconds(Pass::forward, true) >
        2 * flash_attention_time(gpu, Precision::fp16, AttentionKernel::flash2, shape, Pass::forward).total().value);
}

TEST_CASE("an unaligned head dimension keeps attention off the tensor cores") {
  const Gpu gpu = a100();
  const double aligned =
      standard_attention_time(gpu, Precision::fp16, attention(2, 16, 2048, 112), Pass::forward, true).total().value;
  const double unaligned =
      standard_attention_time(gpu, Precision::fp16, attention(2, 16, 2048, 108), Pass::forward, true).total().value;
  CHECK(unaligned > 3 * aligned);
}

TEST_CASE("streaming kernels: bytes over bandwidth, and a floor for each launch") {
  const Gpu gpu = a100();
  const KernelTime time = streaming_time(gpu, Bytes{1e9}, 3);
  CHECK(time.memory.value == doctest::Approx(1e9 / (0.9 * 2039e9)));
  CHECK(time.latency.value == doctest::Approx(6e-6));
  CHECK(time.matmul.value == 0);
  Gpu slow = gpu;
  slow.achieved.elementwise_floor = microseconds(4);
  CHECK(streaming_time(slow, Bytes{1e9}, 3).latency.value == doctest::Approx(12e-6));
}

TEST_CASE("kernel times add and scale part by part") {
  const KernelTime a{Seconds{1}, Seconds{2}, Seconds{4}};
  const KernelTime b = a + a * 2.0;
  CHECK(b.matmul.value == 3);
  CHECK(b.memory.value == 6);
  CHECK(b.latency.value == 12);
  CHECK(b.total().value == 21);
}

TEST_CASE("scaling every rate by k divides every kernel's time by k") {
  const Gpu gpu = h100();
  Gpu twice = gpu;
  for (auto& rate : twice.dense_rate)
    if (rate) *rate *= 2;
  twice.memory_bandwidth *= 2;
  twice.achieved.kernel_floor *= 0.5;
  const Gemm g = gemm(1024, 1024, 16384);
  CHECK(us(gemm_time(twice, Precision::bf16, g)) == doctest::Approx(us(gemm_time(gpu, Precision::bf16, g)) / 2));
  const AttentionShape shape = attention(1, 8, 4096);
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    CHECK(us(flash_attention_time(twice, Precision::bf16, AttentionKernel::flash3, shape, pass)) ==
          doctest::Approx(us(flash_attention_time(gpu, Precision::bf16, AttentionKernel::flash3, shape, pass)) / 2));
    CHECK(us(standard_attention_time(twice, Precision::bf16, shape, pass, true)) ==
          doctest::Approx(us(standard_attention_time(gpu, Precision::bf16, shape, pass, true)) / 2));
  }
}

}  // namespace
}  // namespace foretrain
