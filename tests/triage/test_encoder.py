"""Encoders of images, video and sound, while they are profiled and while they serve: text's chunks do not bound them."""

# ruff: noqa: E501  a line of a log is one line

import pytest

from oomctl.schemas.verdict import Incident
from tests.triage.logs import first

START = """\
(APIServer pid=5) INFO 05-09 07:11:00 [api_server.py:1900] vLLM API server version {version}
(APIServer pid=5) INFO 05-09 07:11:00 [utils.py:253] non-default args: {{'model': 'acme/lynx-vl', 'gpu_memory_utilization': 0.88, 'max_num_batched_tokens': 4096{more}}}
(EngineCore_DP0 pid=41) INFO 05-09 07:12:00 [gpu_model_runner.py:3220] Model loading took 21.7 GiB memory and 9.40 seconds
"""
BUDGET = "(EngineCore_DP0 pid=41) INFO 05-09 07:12:01 [gpu_model_runner.py:3900] Encoder cache will be initialized with a budget of 12288 tokens, and profiled with 2 image items of the maximum feature size.\n"
HEAD = "(EngineCore_DP0 pid=41) ERROR 05-09 07:12:04 [core.py:842] "
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 5.25 GiB. GPU 0 has a total capacity of 31.36 GiB of which 2.50 GiB is free. Including non-PyTorch memory, this process has 28.86 GiB memory in use. Of the allocated memory 28.10 GiB is allocated by PyTorch, and 61.00 MiB is reserved by PyTorch but unallocated."
RUNNER = ("/srv/vllm/v1/worker/gpu_model_runner.py", "profile_run")
TOWERS = {
    "the call that the profiling run makes": (*RUNNER, "dummy = self.model.embed_multimodal(**inputs)"),
    "its older name": (*RUNNER, "dummy = self.model.get_multimodal_embeddings(**inputs)"),
    "a tower that a model calls": ("/srv/vllm/model_executor/models/lynx_vl.py", "f", "x = self.visual(pixels, grid_thw=grid)"),
    "a tower's own file": ("/srv/vllm/model_executor/models/siglip.py", "forward", "x = self.mlp(x)"),
    "sound": ("/srv/vllm/model_executor/models/lynx_audio.py", "f", "x = self.audio_tower(mel)"),
    "a function that gets features": ("/srv/sglang/srt/models/lynx_vl.py", "get_image_feature", "x = g(x)"),
}  # fmt: skip


def traceback(*frames: tuple[str, str, str]) -> str:
    lines = ["Traceback (most recent call last):"]
    for file, function, code in frames:
        lines += [f'  File "{file}", line 7, in {function}', f"    {code}"]
    return "".join(f"{HEAD}{line}\n" for line in (*lines, OOM))


def profiled(*frames: tuple[str, str, str], more: str = "", version: str = "0.12.0") -> Incident:
    return first(START.format(version=version, more=more) + BUDGET + traceback((*RUNNER, "self.f()"), *frames))


def settings(found: Incident) -> list[str]:
    return [remedy.setting or "" for remedy in found.remedies if remedy.when == "change"]


@pytest.mark.parametrize("tower", TOWERS)
def test_an_encoder_in_the_profiling_run(tower: str) -> None:
    found = profiled(TOWERS[tower])
    assert (found.oom_class, found.causes[0].cause) == ("warm_up", "multimodal_encoder")
    assert [setting.split()[0] for setting in settings(found)] == [
        "--limit-mm-per-prompt", "--mm-processor-kwargs", "--skip-mm-profiling", "--tensor-parallel-size",
    ]  # fmt: skip


def test_a_text_model_in_the_profiling_run_is_no_encoder() -> None:
    found = profiled(("/srv/vllm/model_executor/models/lynx_vl.py", "forward", "x = self.language_model(ids)"))
    assert found.causes[0].cause == "profiling_run"
    assert settings(found)[0].startswith("--max-num-batched-tokens")


@pytest.mark.parametrize(
    ("limit", "offered"),
    [("{'image': 1, 'video': 0}", False), ("{'image': 6, 'video': 0}", True), ("{'image': 1}", True), ("{'image': 0, 'video': 0, 'audio': 0}", False)],
)  # fmt: skip
def test_a_limit_that_is_set_already_is_not_offered(limit: str, offered: bool) -> None:
    found = settings(profiled(TOWERS["sound"], more=f", 'limit_mm_per_prompt': {limit}, 'max_num_seqs': 3"))
    assert any("--limit-mm-per-prompt" in setting for setting in found) == offered


def test_pixels_that_are_few_already_are_not_offered() -> None:
    found = settings(profiled(TOWERS["sound"], more=", 'mm_processor_kwargs': {'max_pixels': 602112}"))
    assert not any("max_pixels" in setting for setting in found)


def test_an_option_that_the_version_lacks_is_not_offered() -> None:
    assert not any("skip" in setting for setting in settings(profiled(TOWERS["sound"], version="0.9.2")))


@pytest.mark.parametrize(("mode", "offered"), [("data", True), ("weights", False)])
def test_an_encoder_that_is_copied_to_each_rank_can_be_sharded(mode: str, offered: bool) -> None:
    found = settings(profiled(TOWERS["sound"], more=f", 'mm_encoder_tp_mode': '{mode}'"))
    assert ("--mm-encoder-tp-mode weights" in found) == offered


def test_no_pool_is_blamed_before_there_was_one() -> None:
    """No frame says how far the profiling run came: what bounds images, and what bounds text, may both help."""
    found = settings(first(START.format(version="0.12.0", more="") + BUDGET + f"{HEAD}{OOM}\n"))
    assert not any("utilization" in setting for setting in found)
    assert found[0].startswith("--limit-mm-per-prompt") and any("--max-num-batched-tokens" in item for item in found)


def test_a_pool_is_blamed_once_there_was_one() -> None:
    pool = "(EngineCore_DP0 pid=41) INFO 05-09 07:12:02 [gpu_worker.py:341] Available KV cache memory: 3.10 GiB\n"
    found = settings(first(START.format(version="0.12.0", more="") + BUDGET + pool + f"{HEAD}{OOM}\n"))
    assert any("utilization" in setting for setting in found)


def test_an_encoder_of_a_serving_worker_by_the_call_it_makes() -> None:
    ready = "(APIServer pid=5) INFO:     Application startup complete.\n"
    step = ("/srv/vllm/v1/worker/gpu_model_runner.py", "execute_model", "self.f()")
    found = first(START.format(version="0.12.0", more="") + ready + traceback(step, TOWERS["a tower that a model calls"]))
    assert (found.oom_class, found.causes[0].cause) == ("prefill_spike", "multimodal_encoder")
    assert not any("chunk" in remedy.action or "batched" in (remedy.setting or "") for remedy in found.remedies)


SGLANG = """\
[2026-05-09 07:11:00] server_args=ServerArgs(model_path='acme/lynx-vl', tp_size=1, mem_fraction_static=0.88, chunked_prefill_size=4096, context_length=None)
[2026-05-09 07:12:00 TP0] Load weight end. type=LynxVL, dtype=torch.bfloat16, avail mem=9.12 GB, mem usage=21.90 GB.
[2026-05-09 07:12:10 TP0] KV Cache is allocated. #tokens: 40331, KV size: 3.44 GB
[2026-05-09 07:12:55] The server is fired up and ready to roll!
[2026-05-09 07:13:01 TP0] Scheduler hit an exception: Traceback (most recent call last):
  File "/srv/sglang/srt/managers/scheduler.py", line 3, in event_loop_overlap
    self.f()
  File "/srv/sglang/srt/managers/mm_utils.py", line 3, in embed_mm_inputs
    x = self.f()
  File "/srv/sglang/srt/models/lynx_vl.py", line 3, in get_image_feature
    x = self.visual(pixels, grid_thw=grid)
"""


def test_sglangs_limits_of_images() -> None:
    found = settings(first(SGLANG + OOM + "\n"))
    assert found[:2] == [
        '--limit-mm-data-per-request \'{"image": 1, "video": 0}\'',
        '--mm-process-config \'{"image": {"max_pixels": 1003520}}\'',
    ]
