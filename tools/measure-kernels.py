#!/usr/bin/env python3
"""Measures kernels of this machine's GPU in the format of hardware/measurements (CSV on standard output).

    python3 tools/measure-kernels.py --gpu rtx4090 > my-gpu.csv
    foretrain calibrate --measurements my-gpu.csv

Needs PyTorch with a CUDA (or ROCm) device and nothing else; takes some minutes. --gpu is the card's name in
`foretrain catalog gpus`. Measured in loops of about a second each, so that clock and power settle as in training:
matrix products (several shapes, formats, layouts, accumulating), flash attention as PyTorch runs it (forward and
backward, causal and not), kernels bound by memory, and the rate of tiny launches (stream and graph).
"""

import argparse
import datetime
import sys
import time

try:
    import torch
    import torch.nn.functional as functional
except ImportError:
    sys.exit("measure-kernels.py needs PyTorch: https://pytorch.org/get-started/locally/")

COLUMNS = (
    "kind,dtype,layout,batch,m,n,k,accumulate,output_bytes,kernel,pass,heads,head_dim,seq,causal,"
    "what,bytes,mechanism,time_us,clock_mhz,power_w"
).split(",")
DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}

# M, N, K: projections and feed-forward layers of models of hidden size 1024 to 8192, some short, some ragged.
PRODUCTS = [
    (4096, 1024, 1024), (4096, 3072, 1024), (2048, 2048, 2048), (8192, 1024, 4096), (4096, 4096, 4096),
    (8192, 4096, 4096), (4096, 11008, 4096), (8192, 11008, 4096), (4096, 4096, 11008), (4096, 5120, 5120),
    (4096, 13824, 5120), (8192, 8192, 8192), (4096, 28672, 8192), (2048, 50304, 2048), (4096, 1536, 4096),
    (4096, 2304, 4096), (512, 4096, 4096), (128, 4096, 4096), (1024, 1024, 16384),
]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", required=True, help="name of the card in `foretrain catalog gpus`")
    parser.add_argument("--device", type=int, default=0, help="index of the device (default 0)")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of the loop of each kernel (default 1)")
    parser.add_argument("--quick", action="store_true", help="a third of the shapes")
    return parser.parse_args()


def say(text):
    print(text, file=sys.stderr, flush=True)


def query(device):
    """Clock and power while the loop still runs, if the library for it is installed; else nothing."""
    readings = {}
    for key, read in (("clock_mhz", torch.cuda.clock_rate), ("power_w", lambda d: torch.cuda.power_draw(d) / 1000)):
        try:
            readings[key] = round(read(device))
        except Exception:  # no pynvml, or a driver without it
            pass
    return readings


def loop_time_us(call, seconds):
    """Time of one call in a loop of about `seconds`, in microseconds, after a warm-up of a fifth of that."""

    def batch(count):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(count):
            call()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1e3

    count, took = 1, batch(1)
    while took < seconds / 5:
        count = max(count + 1, int(count * min(10.0, seconds / 4 / max(took, 1e-6))))
        took = batch(count)
    count = max(1, int(count * seconds / took))
    return batch(count) / count * 1e6


class Table:
    def __init__(self, args):
        self.args = args
        print(f"# {torch.cuda.get_device_name(args.device)}, PyTorch {torch.__version__}")
        print(f"#: source: measure-kernels.py on {datetime.date.today().isoformat()}, PyTorch {torch.__version__}")
        print(f"#: gpu: {args.gpu}")
        print("#: condition: loop")
        print(",".join(COLUMNS))

    def add(self, call, **row):
        """Measures `call` and prints its row; a kernel that does not run here is passed over, and said so."""
        name = " ".join(str(v) for v in row.values())
        try:
            row["time_us"] = f"{loop_time_us(call, self.args.seconds):.3f}"
        except Exception as problem:  # out of memory, or a format this card does not have
            torch.cuda.empty_cache()
            say(f"  {name}: passed over ({str(problem).splitlines()[0][:80]})")
            return
        row.update(query(self.args.device))
        print(",".join(str(row.get(c, "")).replace(",", ";") for c in COLUMNS), flush=True)
        say(f"  {name}: {row['time_us']} us")


def formats():
    major, _ = torch.cuda.get_device_capability()
    names = ["fp16", "fp32"]
    if major >= 8 or torch.version.hip:
        names.insert(0, "bf16")
    if major >= 8 and not torch.version.hip:
        names.append("tf32")
    return names


def products(table, shapes):
    for dtype in formats():
        torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
        bytes_out = 4 if dtype in ("fp32", "tf32") else 2
        for m, n, k in shapes[:: 1 if dtype in ("bf16", "fp16") else 4]:
            a = torch.randn(m, k, device="cuda", dtype=DTYPES[dtype])
            b = torch.randn(n, k, device="cuda", dtype=DTYPES[dtype])
            out = torch.empty(m, n, device="cuda", dtype=DTYPES[dtype])
            shape = dict(kind="gemm", dtype=dtype, m=m, n=n, k=k, output_bytes=bytes_out)
            table.add(lambda: torch.mm(a, b.t(), out=out), layout="tn", **shape)
        if dtype not in ("bf16", "fp16"):
            continue
        for m, n, k in shapes[::6]:  # the gradients of input and weight
            a = torch.randn(m, k, device="cuda", dtype=DTYPES[dtype])
            b = torch.randn(k, n, device="cuda", dtype=DTYPES[dtype])
            c = torch.randn(m, n, device="cuda", dtype=DTYPES[dtype])
            table.add(lambda: torch.mm(a, b), kind="gemm", dtype=dtype, layout="nn", m=m, n=n, k=k, output_bytes=2)
            weight = torch.zeros(k, n, device="cuda", dtype=DTYPES[dtype])
            table.add(lambda: weight.addmm_(a.t(), c), kind="gemm", dtype=dtype, layout="nt", m=k, n=n, k=m,
                      accumulate="true", output_bytes=2)
        for batch, m, n, k in ((64, 2048, 2048, 128), (64, 2048, 128, 2048)):
            a = torch.randn(batch, m, k, device="cuda", dtype=DTYPES[dtype])
            b = torch.randn(batch, k, n, device="cuda", dtype=DTYPES[dtype])
            table.add(lambda: torch.bmm(a, b), kind="gemm", dtype=dtype, batch=batch, m=m, n=n, k=k, output_bytes=2)
    torch.backends.cuda.matmul.allow_tf32 = False


def flash_only():
    """A context in which attention runs as one flash kernel or not at all."""
    try:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        return sdpa_kernel(SDPBackend.FLASH_ATTENTION)
    except ImportError:  # PyTorch before 2.3
        return torch.backends.cuda.sdp_kernel(enable_flash=True, enable_math=False, enable_mem_efficient=False)


def attention(table, quick):
    dtype = formats()[0]
    shapes = [(1, 4, 8192, 128), (1, 16, 2048, 128), (1, 16, 8192, 128), (4, 32, 2048, 128), (1, 32, 4096, 128),
              (1, 32, 32768, 128), (16, 16, 1024, 64), (2, 32, 8192, 64)]
    for batch, heads, seq, head_dim in shapes[:: 3 if quick else 1]:
        for causal in (True, False):
            q, k, v = (torch.randn(batch, heads, seq, head_dim, device="cuda", dtype=DTYPES[dtype], requires_grad=True)
                       for _ in range(3))
            row = dict(kind="attention", dtype=dtype, kernel="flash2", batch=batch, heads=heads, head_dim=head_dim,
                       seq=seq, causal=str(causal).lower())

            def forward():
                with flash_only():
                    return functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

            def inference():
                with torch.no_grad():
                    forward()

            table.add(inference, **row, **{"pass": "forward"})
            try:
                out = forward()
            except Exception:
                continue
            gradient = torch.randn_like(out)
            table.add(lambda: torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True), **row,
                      **{"pass": "backward"})


def memory(table):
    # At least 256 MB a tensor, so that no second-level cache holds it.
    for count in (128 << 20, 512 << 20):
        x = torch.randn(count, device="cuda", dtype=torch.float16)
        y, z = torch.empty_like(x), torch.randn_like(x)
        table.add(lambda: y.copy_(x), kind="memory", what="copy", bytes=4 * count)
        table.add(lambda: torch.mul(x, 2.0, out=y), kind="memory", what="y = 2 x", bytes=4 * count)
        table.add(lambda: torch.add(x, z, out=y), kind="memory", what="y = x + z", bytes=6 * count)


def launches(table):
    x = torch.zeros(1024, device="cuda")
    table.add(lambda: x.add_(1.0), kind="launch", mechanism="stream")
    nodes = 200
    try:
        graph = torch.cuda.CUDAGraph()
        x.add_(1.0)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            for _ in range(nodes):
                x.add_(1.0)
        took = loop_time_us(graph.replay, table.args.seconds) / nodes
        print(",".join({"kind": "launch", "mechanism": "graph", "time_us": f"{took:.3f}"}.get(c, "") for c in COLUMNS))
    except Exception as problem:
        say(f"  graph: passed over ({problem})")


def main():
    args = arguments()
    if not torch.cuda.is_available():
        sys.exit("measure-kernels.py needs a GPU that PyTorch can use")
    torch.cuda.set_device(args.device)
    torch.manual_seed(0)
    started = time.monotonic()
    table = Table(args)
    products(table, PRODUCTS[:: 3 if args.quick else 1])
    attention(table, args.quick)
    memory(table)
    launches(table)
    say(f"done in {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
