"""Where names stand: the keys that hold them, their shapes, and the words around them.

The formats are those of the engines' own arguments, of kubectl, Docker, journald, syslog (RFC 3164, RFC 5424), Slurm, MPI,
NCCL and Hugging Face.
"""

import re

Kind = str
"""What a name names; the word that its pseudonym begins with."""

_KEYS: dict[Kind, str] = {
    "model": r"(?:served[_-])?model(?:[_-]?(?:path|name|id|tag|dir))?|tokenizer(?:[_-]path)?|draft[_-]model(?:[_-]path)?"
    r"|speculative[_-](?:draft[_-])?model(?:[_-]path)?|base[_-]model[_-]name|lora[_-]paths?|download[_-]dir",
    "host": r"_?host(?:[_-]?name)?|node(?:[_-]?name)?|instance|pod(?:[_-]?name)?|container(?:[_-]?name)?|nodename"
    r"|master[_-]addr|dist[_-]init[_-]addr|server[_-]name|(?:rdzv[_-])?endpoint|cluster(?:[_-]?name)?|deployment|release",
    "tenant": r"tenant(?:[_-]?id)?|org(?:anization)?(?:[_-]?id)?|customer(?:[_-]?id)?|account(?:[_-]?id)?"
    r"|(?:pod[_-]?)?namespace(?:[_-]?name)?|project(?:[_-]?id)?|team",
    "user": r"user(?:[_-]?(?:id|name))?|owner|author|logname",
    "app": r"app(?:lication)?(?:[_-]?name)?|app\.kubernetes\.io/\w+|service(?:[_-]?name)?",
    "request": r"(?:request|req|trace|span|session|conversation|correlation)[_-]?id|rid",
    "adapter": r"(?:lora|adapter)[_-]names?|lora[_-]modules?",
}
_VALUE = r"""\[?\\*["']?(?P<value>[^\s"',;(){}\[\]\\=]{2,200})"""
KEYED: dict[Kind, re.Pattern[str]] = {
    kind: re.compile(
        rf"""(?i)(?<![\w.])(?:--(?:{names})(?:=|\s+)|\\*["'](?:{names})\\*["']\s*:\s*|(?<!-)(?:{names})\s?=\s?){_VALUE}"""
    )
    for kind, names in _KEYS.items()
}
"""A key and its value; the group `value` is the name."""

LISTED: dict[Kind, re.Pattern[str]] = {
    kind: re.compile(rf"""(?i)(?<![\w.])\\*["']?(?:{_KEYS[kind]})s?\\*["']?\s?[:=]\s?\[(?P<items>[^\[\]]{{0,1000}})\]""")
    for kind in ("model", "adapter", "host", "tenant")
}
ITEM = re.compile(r"""["']([^"'\\]{2,200})["'\\]""")
"""Several names under one key."""

_NAME = r"(?P<value>[A-Za-z0-9][\w.-]{1,100})"
_ODD = r"(?P<value>(?=[\w.-]{0,100}[\d.-])[A-Za-z][\w.-]{2,100})"
"""A name that is no plain word."""
_MOMENT = r"(?:\w{3} )?\d{4}-\d\d-\d\d[T ][\d:.,]+(?: ?[A-Z]{3,4}|[+-]\d\d:?\d\d|Z)?"
_PROGRAM = r"[\w./@()-]+"
_OBJECT = r"(?:[Pp]od|[Nn]ode|deployment|statefulset|replica ?set|job|daemonset)s?(?:\.apps|\.batch)?"
_PUBLISHERS = r"vllm|lmsysorg|rocm|nvcr\.io/nvidia|openmmlab|ollama|ghcr\.io/(?:huggingface|ggml-org)"
_SOURCE = r"[\w.-]+\.(?:py|cpp|cu|cc|c|h|hpp|go|rs):"
_DOMAIN = r"internal|local|lan|corp|svc|intra|home|com|net|org|io|ai|dev|cloud|cn|de|eu|uk"

_PREFIXES = (
    rf"^(?:<\d+>)?(?:\d )?[A-Z][a-z]{{2}} +\d+ \d\d:\d\d:\d\d(?:\.\d+)? {_NAME} {_PROGRAM}(?:\[\d+\])?:",
    rf"^(?:<\d+>\d )?{_MOMENT} {_NAME} {_PROGRAM}(?:\[\d+\]:| \d+ )",
    rf"^\[? *\d[\d.]{{5,30}}\]? {_NAME} {_PROGRAM}\[\d+\]:",
    rf"^{_NAME} +\| ",
    r"\[pod/(?P<value>[\w.-]+)/[\w.-]+\]",
)
"""What journals and container runtimes put before a line."""
_CLUSTER = (
    rf"(?:^|\s)(?:Name|Node|Host(?:name)?|Node Name|Pod|Controlled By|Created By|host) *:\s+(?:\w+/)?{_NAME}",
    rf"\b[Pp]ods? ?[\"'/= ]\"?{_NAME}_[a-z0-9][\w.-]{{0,100}}\(",
    rf"assigned [\w.-]{{2,100}}/{_NAME} to ",
    rf"assigned [\w./-]{{2,200}} to {_NAME}",
    rf"\b{_OBJECT}/{_NAME}",
    rf"\b(?:[Pp]od|[Nn]ode|[Hh]ost|[Cc]ontainer):? \"?{_ODD}",
    rf"kubectl (?:logs|describe|get|exec|top)(?: -{{1,2}}\w+)* (?:pods?[/ ])?{_ODD}",
    r"(?<![\w.-])(?P<value>[a-z][a-z0-9-]{1,60}-(?=[a-z0-9-]{0,16}\d)[a-z0-9]{8,10}-[a-z0-9]{5})(?![\w-])",
)
"""What Kubernetes says of its objects."""
_RANKS = (
    rf"(?<![\w.:/-]){_NAME}:\d{{1,8}}:\d{{1,8}} \[\d{{1,3}}\]",
    rf"(?:^|\s)(?:srun|slurmstepd|mpirun|prterun|pdsh): (?:error: )?{_NAME}: ",
    rf"^\[{_NAME}:\d{{2,8}}\]",
    rf"(?<![\w./@-])(?!{_SOURCE}){_ODD}:\d{{4,5}}(?![\w:])",
    r"(?<![\w.-])(?P<value>ip-\d{1,3}(?:-\d{1,3}){3}[\w.-]*)",
    rf"(?P<value>(?:[A-Za-z0-9][\w-]{{0,62}}\.){{1,8}}(?:{_DOMAIN}))(?![\w.(/])",
)
"""How NCCL, Slurm and MPI name hosts, and how hosts are named."""
_MODELS = (
    r"(?<![\w/.-])(?P<value>[A-Za-z0-9][\w.-]{1,60}/[A-Za-z][\w.-]{0,80}\d[bBmM](?![A-Za-z0-9])[\w.-]*)",
    r"(?P<value>[^\s'\"/=(:]{1,120}\.gguf)\b",
    r"(?P<value>models--[\w.-]{3,150})",
    r"\b[Ll]oad(?:ing)? model (?:from )?'?(?P<value>[\w.:/-]*[/\d][\w.:/-]*\w)",
)
_TENANTS = (
    rf"(?:^|\s)Namespace:\s+{_NAME}",
    rf"\s(?:-n|--namespace)[ =]{_NAME}",
    rf"\b[Pp]ods? ?[\"'/= ]\"?[A-Za-z0-9][\w.-]{{1,100}}_{_NAME}\(",
    rf"assigned {_NAME}/[\w.-]{{1,100}} to ",
    rf"\bnamespaces?[/ ]\"?{_NAME}",
)
_USERS = (
    r"(?:^|[\s'\"=:(])/(?:home|Users)/(?P<value>[\w.-]{2,64})",
    r"\buid=\d{1,7}\((?P<value>[\w.-]{2,64})\)",
    rf"\b[Uu]ser[: ] ?['\"]?{_ODD}",
    rf"\bsudo(?:\[\d+\])?: +{_NAME} :",
    rf"session opened for user \w+(?:\(uid=\d+\))? by {_NAME}",
)
SHAPED: tuple[tuple[Kind, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern))
    for kind, patterns in (
        ("model", _MODELS),
        ("tenant", _TENANTS),
        ("host", _PREFIXES + _CLUSTER + _RANKS),
        ("user", _USERS),
        ("app", (rf"(?:^|\s)Service Account:\s+{_NAME}",)),
        ("image", (rf"\b[Ii]mage:? +\"?(?P<value>(?!(?:{_PUBLISHERS})/)[\w.-]+[/:][\w./:@-]{{2,200}})",)),
        ("adapter", (r"LoRA\w*\((?:lora_)?name=\\*['\"](?P<value>[^'\"\\]{2,100})",)),
        ("request", (r"(?<![\w-])(?P<value>(?:chatcmpl|cmpl|req|request|resp|embd|msg)-[\w-]{6,100})",)),
        ("request", (r"[Rr]equest(?:\(s\))? (?P<value>(?=[\w-]*\d)[\w-]{6,100})",)),
    )
    for pattern in patterns
)
"""Names that their shape, or where they stand, gives away; the group `value` is the name."""
