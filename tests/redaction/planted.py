"""Logs in which a secret of every kind is planted, in every place where engines, clusters and journals print such a thing."""

# ruff: noqa: E501  a line of a log is one line

import json
import random
import re
from dataclasses import dataclass

from oomctl.redaction.words import public_words

HEADER = "(EngineCore pid=4302) WARNING 03-14 15:09:23 [envs.py:1] "
ORDINARY = ("preview", "payments", "research", "falcon", "atlas", "billing", "phoenix")
"""Words that are public, and name something where they stand."""


@dataclass(frozen=True)
class Secrets:
    """Values by kind; the odd ones are no public words, the ordinary ones are hidden for where they stand."""

    odd: dict[str, str]
    ordinary: dict[str, str]

    def found_in(self, text: str) -> list[str]:
        """Those that a text gives away."""
        lower = text.lower()
        odd = [f"{kind}: {value}" for kind, value in self.odd.items() if value.lower() in lower]
        return odd + [
            f"{kind}: {value}"
            for kind, value in self.ordinary.items()
            if re.search(rf"(?<![A-Za-z0-9]){re.escape(value)}(?![A-Za-z0-9])", text)
        ]


def secrets(seed: int) -> Secrets:
    """Fresh secrets."""
    pick = random.Random(seed)

    def odd(length: int = 3) -> str:
        while (word := "".join(pick.choice("bdgkpqvxz") + pick.choice("aiou") for _ in range(length))) in public_words():
            pass
        return word

    def token(prefix: str, length: int) -> str:
        return prefix + "".join(
            pick.choice("ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnpqrstuvwxyz23456789") for _ in range(length)
        )

    namespace, team, user = pick.sample(ORDINARY, 3)
    return Secrets(
        odd={
            "owner": odd(), "model": odd(), "served": f"{odd()}-chat", "adapter": f"{odd()}_sql", "lora": odd(),
            "user": odd(), "login": odd(), "mail": f"{odd()}.{odd()}@{odd()}.com", "host": f"{odd()}-{pick.randrange(10, 99)}",
            "node": f"{odd()}node{pick.randrange(9)}", "pod": f"{odd()}-7d9c8b6f54-x2k9q", "service": odd(), "domain": odd(),
            "ip": f"10.{pick.randrange(20, 250)}.{pick.randrange(20, 250)}.{pick.randrange(20, 250)}",
            "ipv6": f"fd00:{pick.randrange(4096, 65535):x}:{pick.randrange(4096, 65535):x}::9",
            "mac": f"0a:58:{pick.randrange(16, 255):02x}:{pick.randrange(16, 255):02x}:{pick.randrange(16, 255):02x}:01",
            "key": token("sk-", 24), "hub": token("hf_", 24), "password": token("", 14), "folder": odd(), "package": odd(),
            "function": f"forward_{odd()}", "layer": f"{odd()}_gate", "file": f"{odd()}_patch", "secret_file": odd(),
            "prompt": f"{odd()} {odd()} {odd()}", "tenant": odd(), "bucket": odd(), "registry": odd(), "project": odd(),
            "request": token("chatcmpl-", 16), "uuid": f"{pick.randrange(2**32):08x}-1234-4321-8888-{pick.randrange(2**48):012x}",
            "container": f"{pick.getrandbits(256):064x}", "exception": f"{odd().capitalize()}Error", "word": odd(4),
            "queue": odd(), "image": odd(), "secret_word": f"{odd()}{pick.randrange(100)}",
        },
        ordinary={
            "namespace": namespace, "team": team, "home": user, "gpu host": f"gpu-{pick.randrange(100, 999)}",
            "numbered host": f"node{pick.randrange(100, 999)}", "stateful pod": f"server-{pick.randrange(100, 999)}",
        },
    )  # fmt: skip


def lines(hidden: Secrets) -> list[str]:
    """Lines that hold them, as an engine's warnings: such lines are kept whole."""
    s = {**hidden.odd, **{key.replace(" ", "_"): value for key, value in hidden.ordinary.items()}}
    said = (
        f"non-default args: {{'model': '/mnt/{s['owner']}/{s['model']}-9B', 'served_model_name': ['{s['served']}', '{s['model']}-x'], 'host': '{s['ip']}', 'api_key': ['{s['key']}'], 'hf_token': '{s['hub']}', 'lora_modules': [LoRAModulePath(name='{s['adapter']}', path='/mnt/{s['folder']}/{s['lora']}')], 'ssl_keyfile': '/etc/ssl/private/{s['secret_file']}.key', 'max_model_len': 8192}}",
        f"server_args=ServerArgs(model_path='{s['owner']}/{s['model']}-7b', tokenizer_path='{s['owner']}/{s['model']}-7b', nccl_port=None, dist_init_addr='{s['host']}:5000', lora_paths=['{s['lora']}=/x/{s['lora']}'])",
        f"vllm serve {s['owner']}/{s['model']}-9B-Instruct --served-model-name {s['served']} --api-key {s['key']} --lora-modules {s['adapter']}=/mnt/{s['folder']}/{s['lora']}",
        f"Starting to load model /home/{s['home']}/{s['folder']}/{s['model']}...",
        f"Using cache directory: /home/{s['home']}/.cache/vllm/{s['folder']} of user {s['home']}, /Users/{s['user']}/x, /root/{s['folder']}/y.json",
        f"node ip-{s['ip'].replace('.', '-')}.ec2.internal at {s['ipv6']} ({s['ip']}:41233) mac {s['mac']} on {s['ip']}. user={s['login']} tenant={s['tenant']} mail {s['mail']}",
        f"distributed_init_method=tcp://{s['host']}:41233 backend=nccl, MASTER_ADDR={s['node']} HOSTNAME={s['stateful_pod']} POD_NAMESPACE={s['namespace']} PASSWORD={s['password']}",
        f"GET https://llm.{s['domain']}.com:8443/v1/tenants/{s['tenant']}/completions failed; s3://{s['bucket']}/{s['model']}/x and gs://{s['bucket']}/y",
        f"connecting to postgres://{s['login']}:{s['password']}@db.{s['domain']}.internal:5432/{s['project']}",
        f"Received request {s['request']}: prompt: '{s['prompt']}', params: SamplingParams(n=1), lora_request: LoRARequest(lora_name='{s['adapter']}', lora_int_id=1, lora_path='/mnt/{s['folder']}/{s['lora']}').",
        f"{s['numbered_host']}:91:311 [1] NCCL WARN Cuda failure 2 'out of memory'",
        f"{s['gpu_host']}:91:311 [0] NCCL INFO Bootstrap : Using eth0:{s['ip']}<0>",
        f"Back-off restarting failed container {s['container']} in pod {s['stateful_pod']}_{s['namespace']}(1b)",
        f"Successfully assigned {s['namespace']}/{s['pod']} to {s['gpu_host']}; pod/{s['pod']} on node/{s['numbered_host']}, namespace {s['namespace']}",
        f'kubectl logs -p {s["stateful_pod"]} -n {s["namespace"]}; Pulling image "registry.{s["registry"]}.io/{s["image"]}/vllm:1.2"',
        f'task_memcg=/kubepods.slice/{s["container"]}, labels {{app="{s["service"]}", team="{s["team"]}"}} device GPU-{s["uuid"]}',
        f"srun: error: {s['gpu_host']}: task 0: Exited; [{s['numbered_host']}:71245] mpi",
        f"plugin {s['package']}.{s['queue']}: {s['package']}.errors.{s['exception']}: the {s['word']} of {s['word'].capitalize()} has {s['secret_word']}",
        f'says {{"hostname": "{s["gpu_host"]}", "namespace": "{s["namespace"]}", "user": "{s["login"]}", "service": "{s["service"]}", "x": "{s["word"]}"}}',
        f"/opt/{s['folder']}/bin/{s['file']} --config /etc/{s['secret_file']}.yaml /usr/lib/{s['package']}.so C:\\Users\\{s['user']}\\{s['file']}.txt ~/{s['folder']}/z",
    )
    return [HEADER + text for text in said]


def frames(hidden: Secrets, before: str) -> list[str]:
    """Private frames, each line behind what stands before a frame's lines in the log."""
    s = hidden.odd
    return [
        f'{before}File "/srv/{s["folder"]}/{s["file"]}.py", line 5, in {s["function"]}',
        f"{before}  hidden = self.{s['layer']}(x, '{s['word']}')  # {s['queue']}",
        f'{before}File "/venv/lib/python3.12/site-packages/{s["package"]}/{s["file"]}.py", line 7, in {s["layer"]}',
        f"{before}  return {s['package']}.call({s['secret_word']})",
        f'{before}File "{s["file"]}.py", line 9, in <module>',
    ]


def planted(log: str, hidden: Secrets) -> str:
    """A log with all of it: lines before the first traceback, frames before the last frame of every one."""
    made: list[str] = []
    fresh = lines(hidden)
    for line in log.splitlines():
        frame = re.match(r'(?P<before>.*?)File "', line)
        if fresh and frame is not None:
            made = [*made[:1], *fresh, *made[1:]]
            fresh = []
        if frame is not None and len(made) > 1 and 'File "' not in made[-1]:
            made += frames(hidden, frame["before"])
        made.append(line)
    return "\n".join([*made[:1], *fresh, *made[1:]]) + "\n"


def envelopes(hidden: Secrets) -> dict[str, str]:
    """Prefixes and objects; `%` is the line, `@` the same as JSON."""
    host, numbered, pod = hidden.ordinary["gpu host"], hidden.ordinary["numbered host"], hidden.odd["pod"]
    namespace, service = hidden.ordinary["namespace"], hidden.odd["service"]
    return {
        "bare": "%",
        "journal": f"Nov 30 10:00:01 {host} vllm[2211]: %",
        "journal, iso": f"2026-11-30T10:00:01+01:00 {numbered} vllm[2211]: %",
        "rfc 5424": f"<14>1 2026-11-30T10:00:01.003Z {host} vllm 2211 - - %",
        "kubectl": f"[pod/{pod}/vllm] %",
        "stern": f"{pod} vllm %",
        "compose": f"{service}-1  | %",
        "docker": '{"log":@,"stream":"stderr","time":"2026-11-30T10:00:01.123456789Z"}',
        "fluent bit": f'{{"date":1796029200.1,"log":@,"kubernetes":{{"pod_name":"{pod}","namespace_name":"{namespace}","host":"{host}","labels":{{"app":"{service}"}}}}}}',
        "journald": f'{{"__REALTIME_TIMESTAMP":"1796029200000000","_HOSTNAME":"{numbered}","SYSLOG_IDENTIFIER":"{service}","MESSAGE":@}}',
        "loki": f'2026-11-30T10:00:01+01:00 {{app="{service}", pod="{pod}", namespace="{namespace}"}} %',
    }


def enveloped(log: str, envelope: str) -> str:
    """Each line of a log in an envelope."""
    return "".join(envelope.replace("@", json.dumps(line)).replace("%", line) + "\n" for line in log.splitlines())


def described(hidden: Secrets) -> str:
    """`kubectl describe pod` of a container that was killed for memory."""
    s = {**hidden.odd, **{key.replace(" ", "_"): value for key, value in hidden.ordinary.items()}}
    return f"""Name:             {s["pod"]}
Namespace:        {s["namespace"]}
Service Account:  {s["service"]}
Node:             {s["gpu_host"]}/{s["ip"]}
Labels:           app={s["service"]}
                  team={s["team"]}
Annotations:      owner: {s["mail"]}
Status:           Running
IP:               {s["ip"]}
Controlled By:    ReplicaSet/{s["service"]}-7d9c8b6f54
Containers:
  {s["queue"]}:
    Container ID:  containerd://{s["container"]}
    Image:         registry.{s["registry"]}.io/{s["image"]}/vllm:0.26.1
    Command:
      python3
      -m
      {s["package"]}.main
    State:          Waiting
      Reason:       CrashLoopBackOff
    Last State:     Terminated
      Reason:       OOMKilled
      Exit Code:    137
      Started:      Sat, 14 Mar 2026 15:00:00 +0000
      Finished:     Sat, 14 Mar 2026 15:10:00 +0000
    Limits:
      memory:  64Gi
    Environment:
      MODEL_NAME:  {s["owner"]}/{s["model"]}
    Mounts:
      /mnt/{s["folder"]} from {s["bucket"]} (ro)
Node-Selectors:  {s["domain"]}.com/pool={s["project"]}
Events:
  Type     Reason     Age   From               Message
  ----     ------     ----  ----               -------
  Normal   Scheduled  20m   default-scheduler  Successfully assigned {s["namespace"]}/{s["pod"]} to {s["gpu_host"]}
  Warning  BackOff    2m    kubelet            Back-off restarting failed container {s["queue"]} in pod {s["pod"]}_{s["namespace"]}({s["uuid"]})
"""
