"""vLLM's words: V1 lines of 0.11 to 0.33, from the banner to the periodic report."""

from tests.scenarios import facts
from tests.scenarios.entries import Fact
from tests.scenarios.printing import fixed
from tests.scenarios.vllm_processes import VllmProcesses


class VllmWriter(VllmProcesses):
    """Prints as vLLM does."""

    def start(self, **arguments: object) -> None:
        f = self.figures
        given = {
            "model": f.model,
            "max_model_len": f.max_model_len,
            "gpu_memory_utilization": f.utilization,
            "max_num_seqs": f.max_num_seqs,
            "tensor_parallel_size": f.ranks,
        } | arguments
        engine = facts.manifest("engine", name="vllm", version=f.vllm_version)
        self.say(
            f"vLLM API server version {f.vllm_version}",
            facts.lifecycle("spawned"),
            *engine,
            process="api",
            where="api_server.py:1346",
        )
        text = f"non-default args: {given}"
        self.say(text, *facts.manifest("argument", **given), process="api", where="utils.py:253")
        text = f"Chunked prefill is enabled with max_num_batched_tokens={f.chunk_tokens}."
        rows = facts.manifest("argument", max_num_batched_tokens=f.chunk_tokens)
        self.say(text, *rows, process="api", where="scheduler.py:238")
        self.wait(4, 9)
        text = (
            f"Initializing a V1 LLM engine (v{f.vllm_version}) with config: model='{f.model}', speculative_config=None, "
            f"tokenizer='{f.model}', dtype=torch.bfloat16, max_seq_len={f.max_model_len}, load_format=auto, "
            f"tensor_parallel_size={f.ranks}, pipeline_parallel_size=1, data_parallel_size=1, "
            f"quantization={given.get('quantization')}, enforce_eager=False, kv_cache_dtype=auto"
        )
        self.say(text, *facts.manifest("model", model=f.model), where="core.py:105")
        self.wait(3, 6)

    def load(self) -> None:
        """The load begins."""
        text = f"Starting to load model {self.figures.model}..."
        self.each_rank(text, facts.lifecycle("loading", text), where="gpu_model_runner.py:4735")

    def weights(self) -> None:
        f = self.figures
        if not f.tells_components:
            text = f"Loading weights took {f.between(900, 6_000) / 100:.2f} seconds"
            self.each_rank(text, facts.lifecycle("weights_loaded", text), where="default_loader.py:384")
            return
        size = fixed(f.weights_bytes)
        text = f"Model loading took {size.text} memory and {f.between(9_000_000, 60_000_000) / 1e6:.6f} seconds"
        rows = (facts.lifecycle("weights_loaded", text), facts.memory("weights", size))
        self.each_rank(text, *rows, where="gpu_model_runner.py:4820")

    def profile(self) -> None:
        """Memory profiling begins: compilation and the dummy run at the largest batch."""
        text = f"torch.compile took {self.figures.between(600, 2_400) / 100:.2f} s in total"
        self.each_rank(text, facts.lifecycle("compiling", text), where="monitor.py:48")
        self.wait(2, 5)
        text = "Profiling CUDA graph memory: PIECEWISE=51 (largest=512), FULL=51 (largest=512)"
        self.each_rank(text, facts.lifecycle("profiling", text), where="gpu_model_runner.py:5876")
        self.wait(3, 8)

    def cache(self) -> None:
        f = self.figures
        self.profile()
        size = fixed(f.kv_bytes)
        text = f"Available KV cache memory: {size.text}"
        self.each_rank(text, facts.memory("kv_pool", size, "available"), where="gpu_worker.py:436")
        pool = Fact("kv_pool", {"tier": "device", "total_tokens": f.kv_tokens})
        rows = (facts.lifecycle("kv_allocated"), pool)
        self.say(f"GPU KV cache size: {f.kv_tokens:,} tokens", *rows, where="kv_cache_utils.py:1319")
        text = f"Maximum concurrency for {f.max_model_len:,} tokens per request: {f.kv_tokens / f.max_model_len:.2f}x"
        concurrency = Fact("kv_pool", {"max_concurrency": round(f.kv_tokens / f.max_model_len, 2)})
        self.say(text, concurrency, where="kv_cache_utils.py:1324")
        if f.tells_components:
            blocks = f.kv_tokens // 16
            text = f"Engine 000: vllm cache_config_info with initialization after num_gpu_blocks is: {blocks}"
            pool = Fact("kv_pool", {"total_blocks": blocks})
            self.say(text, pool, process="api", level="DEBUG", where="loggers.py:273")

    def capture(self, *, ends: bool = True) -> None:
        f = self.figures
        for rank in range(f.ranks):
            bar = "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):   0%|          | 0/51 [00:00<?, ?it/s]"
            self.say(bar, facts.lifecycle("capturing"), process="worker", level="", rank=rank)
        self.wait(3, 9)
        if not ends:
            return
        size = fixed(f.graph_bytes)
        text = f"Graph capturing finished in {f.between(4, 15)} secs, took {size.text}"
        graph = Fact("graph", {"bytes": size.bytes, "resolution_bytes": size.resolution_bytes})
        self.each_rank(text, facts.memory("graph_pool", size), graph, where="gpu_model_runner.py:6046")
        if f.tells_components and f.tells_budget:
            self._budget()

    def _budget(self) -> None:
        f = self.figures
        free, total = fixed(f.device_bytes - f.non_torch_bytes // 2), fixed(f.device_bytes)
        budget = fixed(f.device_bytes * f.utilization)
        named = {
            "weights": fixed(f.weights_bytes),
            "activation": fixed(f.activation_bytes),
            "non_torch": fixed(f.non_torch_bytes),
            "graph_pool": fixed(f.graph_bytes),
        }
        kv = fixed(f.kv_bytes)
        text = (
            f"Free memory on device ({free.text[:-4]}/{total.text}) on startup. Desired GPU memory utilization is "
            f"({f.utilization}, {budget.text}). Actual usage is {named['weights'].text} for weight, "
            f"{named['activation'].text} for peak activation, {named['non_torch'].text} for non-torch memory, and "
            f"{named['graph_pool'].text} for CUDAGraph memory. Current kv cache memory in use is {kv.text}."
        )
        device = Fact(
            "device",
            {
                "total_bytes": total.bytes,
                "free_bytes": free.bytes,
                "budget_bytes": budget.bytes,
                "resolution_bytes": total.resolution_bytes,
            },
        )
        rows = (device, *(facts.memory(component, size) for component, size in named.items()), facts.memory("kv_pool", kv))
        self.each_rank(text, *rows, where="gpu_worker.py:661")

    def ready(self) -> None:
        self.say("INFO:     Application startup complete.", facts.lifecycle("ready"), process="api", level="")

    def report(self, usage_tenths: int, running: int, waiting: int = 0, **rates: float) -> None:
        prompt, generation = rates.get("prompt", 0.0), rates.get("generation", running * 31.7)
        preempted = int(rates.get("preempted", 0))
        text = (
            f"Engine 000: Avg prompt throughput: {prompt:.1f} tokens/s, Avg generation throughput: {generation:.1f} "
            f"tokens/s, Running: {running} reqs, Waiting: {waiting} reqs, "
            f"{f'Preemptions: {preempted}, ' if preempted else ''}GPU KV cache usage: {usage_tenths / 10:.1f}%, "
            "Prefix cache hit rate: 0.0%"
        )
        rows = [
            facts.throughput(round(prompt, 1), round(generation, 1), running, waiting, preempted or None),
            facts.kv_usage(usage_tenths),
        ]
        if preempted:
            rows.append(facts.blocks_short("preemption", preempted, message=text))
        self.say(text, *rows, process="api", where="loggers.py:259")
        self.wait(10)

    def prefill(self, tokens: int, usage_tenths: int, running: int, waiting: int = 0) -> None:
        text = (
            f"Iteration({self.figures.between(1_000, 90_000)}): 1 context requests, {tokens} context tokens, {running} "
            f"generation requests, {running} generation tokens, iteration elapsed time: {tokens / 24:.2f} ms"
        )
        self.say(text, facts.prefill_step(tokens, running, waiting), where="core.py:359")
        self.wait(1, 3)

    def reload(self) -> None:
        self.each_rank("Reloading weights inplace...", facts.lifecycle("reloading"), where="gpu_model_runner.py:5102")
