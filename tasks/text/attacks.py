"""Patterns of prompt injections, as a table of six classes of attack.

A row of the table is a class, its first words, and a pattern of the text after them. Before the match, the text is
folded: lower case, without look-alike letters and escapes. A row of prose is matched against the words alone, with one
blank between two words. A row of code is matched against the text with its signs, with one blank for a run of blanks.
First words alone are never an attack: "as root", "no limit" or "run the shell script" are prose. Rows are as narrow as
real READMEs demand (tests/tools/readme_false_positives.py measures them). Every repeat is bounded and no gap contains a
bracket, so no match reaches across a redaction.

A list of phrases stops only cheap attacks. The real protection of a fleet is another one: text from outside is never
more than text. No file, command, queue or limit of a step is ever taken from it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum


class AttackClass(StrEnum):
    """The aim of an attack; events and errors contain its value."""

    OVERRIDE = "instruction_override"
    ROLE = "role_hijack"
    COMMAND = "command_injection"
    SAFETY = "safety_off"
    PRIVILEGE = "privilege"
    EXFILTRATION = "exfiltration"


class View(StrEnum):
    """The rewritten form of a text that the pattern of a row is searched in."""

    WORDS = "words"  # one blank for any separators
    LINES = "lines"  # the same, with a line end for separators that contain one
    CODE = "code"  # literally, except for runs of blanks


@dataclass(frozen=True, slots=True)
class Attack:
    """One row of the table: a match has `after` before it, then begins with one of `starts`, and ends with `rest`."""

    kind: AttackClass
    starts: str  # words, separated by "|"; they are looked for where a line end counts as a blank
    rest: str
    after: str = r"(?<![a-z0-9])"
    view: View = View.WORDS
    words: tuple[str, ...] = field(init=False, repr=False)
    pattern: re.Pattern[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", tuple(self.starts.split("|")))
        words = "|".join(map(re.escape, self.words))
        if self.view is View.LINES:
            words = words.replace("\\ ", "[ \n]")
        object.__setattr__(self, "pattern", re.compile(f"{self.after}(?:{words}){self.rest}", re.MULTILINE))


_G = r"[^a-z0-9\[\]]{1,12}"  # between two words: spaces, line ends, quotes, markup
GAP = _G
_THE = rf"(?:(?:all|any|every|each|of|the|these|those|this|that|your|my|our|its|to){_G}){{0,5}}"
_BEFORE = r"(?:previous|previously|prior|above|preceding|earlier|foregoing|former)"
_ORDERS = r"(?:instructions?|prompts?|directions?|directives?|commands?|guidelines?|orders?|rules?|messages?|context)\b"
_YOURS = (
    rf"your{_G}(?:[a-z]{{1,20}}{_G}){{0,2}}(?:instructions?|prompt|rules|guidelines|programming|training|directives)\b"
)
_SAFE = r"(?:safety|security|ethical|ethics|moderation|content)"
_GUARDS = (
    r"(?:rules?|guidelines?|filters?|polic(?:y|ies)|measures?|protocols?|checks?|restrictions?|constraints?|guards?)\b"
)
_SECRETS = (
    r"(?:secrets?|credentials?|passwords?|api[ _\n-]?keys?|private[ _\n-]?keys?|ssh[ _\n-]?keys?|access[ _\n-]?tokens?"
    r"|tokens?|environment\s{1,3}variables|env(?:ironment)?\s{1,3}vars|\.env\b|/etc/passwd|/etc/shadow"
    r"|source\s{1,3}code|system\s{1,3}prompt)"
)
_AWAY = (
    r"(?:https?://|ftp://|[a-z0-9._%+-]{1,64}@[a-z0-9-]{1,64}\.|my\b|this (?:url|server|address|endpoint)|webhook"
    r"|pastebin)"
)
_NEAR = r"[^\[\]]{0,80}?"
_SHELL = (
    r"(?:sudo (?:-[a-z]{1,9} ){0,3})?(?:env )?(?:/(?:usr/)?bin/)?"
    r"(?:(?:ba|z|da|k|fi)?sh|python[0-9.]{0,5}|perl|ruby|node|php|iex)\b"
)

_FIRST = r"(?:^|(?<=^ )|(?<=[.!?:] )|(?<=[.!?:]))"  # of a line or a sentence
_OPENING = r"(?:^|(?<=^ ))"  # of a line
_SAID = r" ?: ?\S"  # a speaker's name is followed by words
_TOOLS = "(?:function_(?:calls?|results)|tool_(?:calls?|responses?|results?|use)|invoke)"

_OVERRIDE, _ROLE, _COMMAND = AttackClass.OVERRIDE, AttackClass.ROLE, AttackClass.COMMAND
_SAFETY, _PRIVILEGE, _EXFILTRATION = AttackClass.SAFETY, AttackClass.PRIVILEGE, AttackClass.EXFILTRATION
_LINES, _CODE = View.LINES, View.CODE
_FORGET = "ignore|disregard|forget|neglect|discard|do not follow|don't follow|stop following|pay no attention to"
_ANY = ""  # at any place

_PROSE = (
    Attack(_OVERRIDE, f"{_FORGET}|override|bypass", rf"{_G}{_THE}{_BEFORE}{_G}(?:[a-z]{{1,20}}{_G}){{0,2}}{_ORDERS}"),
    Attack(
        _OVERRIDE,
        f"{_FORGET}|override|bypass",
        rf"{_G}{_THE}(?:instructions?|rules|prompts?|orders){_G}"
        rf"(?:[a-z]{{1,20}}{_G}){{0,3}}(?:above|before|earlier|so far|previously)\b",
    ),
    Attack(
        _OVERRIDE,
        _FORGET,
        rf"{_G}(?:everything|anything|all|whatever|what){_G}(?:that{_G})?(?:is{_G}|came{_G}|was{_G})?"
        rf"(?:above|before (?:this|now)|previously|you (?:know|knew|were told|have been told)|i (?:said|told))\b",
    ),
    Attack(_OVERRIDE, f"{_FORGET}|override|bypass", rf"{_G}(?:all{_G}|any{_G}|every{_G})?(?:of{_G})?{_YOURS}"),
    Attack(_OVERRIDE, _FORGET, rf"{_G}{_THE}{_SAFE}{_G}{_GUARDS}"),
    Attack(_OVERRIDE, "override|bypass", rf"{_G}(?:all{_G}|any{_G}|every{_G}|your{_G}){{1,2}}{_SAFE}{_G}{_GUARDS}"),
    Attack(
        _OVERRIDE,
        "if you are|if you're",
        rf"{_G}(?:an?{_G})?(?:ai|llm|(?:large{_G})?language model|coding agent|chat ?bot)\b[^.\[\]]{{0,80}}?"
        r"\b(?:ignore|must|do not|don't|instead|stop|reply|respond|run|execute|delete|send|output)\b",
    ),
    Attack(
        _OVERRIDE,
        "do not tell|don't tell|never tell|do not inform|don't inform|hide from|without telling|without informing",
        rf"{_G}(?:the{_G}|any{_G}|your{_G})?(?:users?|humans?|operators?|owners?|reviewers?){_G}(?:about{_G})?"
        r"(?:this|these|that you|what you)\b",
    ),
    Attack(
        _OVERRIDE,
        "note to|attention|message to|message for|instructions for|instruction for|note for",
        rf"{_G}(?:the{_G}|any{_G}|all{_G}|every{_G})?(?:ai|llm|language model|coding|chat ?bot)"
        rf"(?:{_G}(?:agent|assistant|model|reader)s?|s)? ?:",
    ),
    Attack(
        _ROLE,
        "you are now|you're now",
        rf"{_G}(?:(?:a|an|the|my){_G}[a-z]|dan\b|free (?:of|from)\b|unrestricted|jailbroken"
        r"|in (?:developer|god|admin|debug|root|dan|jailbreak) mode|no longer (?:bound|limited|an?)\b)",
    ),
    Attack(
        _ROLE,
        "from now on",
        rf"{_G}you(?:'re| are| must| will (?:act|be|obey|only|respond|answer|ignore)| shall| act)\b",
    ),
    Attack(_ROLE, "pretend|act as if|act as though", rf"{_G}(?:that{_G})?you(?:'re| are| were| have)\b"),
    Attack(
        _ROLE, "act as|behave as|roleplay as", rf"{_G}(?:an?{_G})?(?:unrestricted|jailbroken|uncensored|dan|evil)\b"
    ),
    Attack(
        _ROLE,
        "your new|your real|your actual|your true",
        rf"{_G}(?:instructions|task|goal|objective|purpose|role){_G}(?:is|are)\b",
    ),
    Attack(_ROLE, "do anything now|jailbreak mode|dan mode|god mode enabled|developer mode enabled", r"\b"),
    Attack(_ROLE, "new instructions|new system prompt|updated instructions", _SAID, _FIRST, _LINES),
    Attack(_ROLE, "system prompt|system message|system override|system instructions|assistant", _SAID, _FIRST, _LINES),
    Attack(_ROLE, "human", _SAID, _OPENING, _LINES),
    Attack(
        _SAFETY,
        "disable|remove|turn off|switch off|deactivate|suspend",
        rf"{_G}{_THE}(?:{_SAFE}{_G}{_GUARDS}|guard ?rails?\b|safeguards\b)",
    ),
    Attack(
        _SAFETY,
        "you have no|you have zero|operate without|respond without|answer without",
        rf"{_G}(?:any{_G}|ethical{_G}|moral{_G}|safety{_G}){{0,2}}"
        r"(?:restrictions|limits|limitations|rules|guidelines|filters|boundaries|morals)\b",
    ),
    Attack(
        _SAFETY,
        "you are not bound by|no longer bound by|you are free from|you are free of",
        rf"{_G}(?:any{_G}|all{_G}|your{_G}|the{_G}){{1,2}}(?:[a-z]{{1,20}}{_G})?"
        r"(?:restrictions|limitations|rules|guidelines|filters|policies)\b",
    ),
    Attack(
        _PRIVILEGE,
        "grant|give",
        rf"{_G}(?:me|yourself|us|itself){_G}(?:full{_G}|complete{_G}|unrestricted{_G})?"
        r"(?:root|admin|administrator|sudo|superuser)\b",
    ),
    Attack(
        _PRIVILEGE,
        "you now have|you have been granted",
        rf"{_G}(?:full{_G}|complete{_G})?(?:root|admin|administrator|sudo|superuser|unrestricted)\b",
    ),
    Attack(_PRIVILEGE, "escalate", rf"{_G}(?:your|my){_G}privileges\b"),
    Attack(_EXFILTRATION, "exfiltrate", r"\b", r"(?:^|(?<=^ )|(?<=\[)|(?<=[.!?:;] )|(?<=please ))", _LINES),
    Attack(
        _EXFILTRATION,
        "reveal|print|show|output|repeat|display|leak|tell me",
        rf"{_G}(?:me{_G})?(?:your{_G}(?:system|initial|hidden|original|secret){_G}(?:prompt|instructions?)"
        rf"|the{_G}(?:system|hidden|secret){_G}prompt)\b",
    ),
    Attack(
        _EXFILTRATION,
        "reveal|print|output|repeat",
        rf"{_G}(?:all{_G}|the{_G}|of{_G}){{0,3}}(?:words|text|everything){_G}above{_G}"
        r"(?:starting|beginning|verbatim|word for word)\b",
    ),
)
_TURNS = (  # marks of models' templates that end a turn of a conversation and begin another
    Attack(_ROLE, "<", r"(?:/?(?:system|assistant)|<sys)[ _a-z-]{0,20}>", _ANY, _CODE),
    Attack(_ROLE, "<", r" ?\| ?[a-z][a-z0-9_\u2581. -]{0,40}\|>", _ANY, _CODE),
    Attack(_ROLE, "<", r"/?(?:(?:start|end)_of_turn|start_of_image|end_of_utterance) ?/?>", _ANY, _CODE),
    Attack(_ROLE, "<", rf"/?(?:antml:)?{_TOOLS}(?: ?/?>|[ =][^<>\n]{{0,200}}>)", _ANY, _CODE),
    Attack(_ROLE, "[system|[assistant|[inst|[/inst", r"(?: prompt| message)?\][ \t]{0,3}[^\s(:=\[]", _ANY, _CODE),
    Attack(_ROLE, "[tool_calls|[available_tools|[tool_results|[/available_tools", r"\]", _ANY, _CODE),
    Attack(_ROLE, "### instruction|### human|### assistant|### system", _SAID.replace(r" ?\S", r"\s?"), _ANY, _CODE),
    Attack(
        _ROLE,
        "|".join(f"{quote}role{quote}" for quote in ("'", '"', '\\"')),
        r"\s{0,3}:\s{0,3}\\?['\"](?:system|developer)\\?['\"]",
        _ANY,
        _CODE,
    ),
)
_COMMANDS = (
    Attack(
        _COMMAND,
        "curl|wget|iwr|irm|invoke-webrequest|base64 -d|base64 --decode",
        rf"\b[^\n|\[\]]{{0,300}}\|[ \t]{{0,3}}{_SHELL}",
        view=_CODE,
    ),
    Attack(
        _COMMAND,
        "bash|sh|zsh|eval|source|python|python3|perl",
        r"[ \t]{1,3}(?:-[a-z]{1,3}[ \t]{1,3})?[\"'`]{0,1}(?:<\(|\$\(|`)[ \t]{0,3}(?:curl|wget)\b",
        view=_CODE,
    ),
    Attack(
        _COMMAND,
        "os.system|os.popen|os.exec|os.spawn|pty.spawn|commands.getoutput",
        r"[a-z]{0,6}[ \t]{0,3}\(",
        view=_CODE,
    ),
    Attack(_COMMAND, "__import__", r"[ \t]{0,3}\([ \t]{0,3}[\"'](?:os|subprocess|pty|socket|shutil)\b", view=_CODE),
    Attack(_COMMAND, "import os|import subprocess|import pty|import socket", r"[a-z, ]{0,40};", view=_CODE),
    Attack(
        _COMMAND,
        "subprocess.",
        r"[a-z_]{2,20}[ \t]{0,3}\([\[(\"' \t]{0,6}(?:curl|wget|rm|nc|bash|sh|zsh|powershell|sudo|chmod)\b",
        view=_CODE,
    ),
    Attack(
        _COMMAND,
        "eval|exec",
        r"[ \t]{0,3}\([ \t]{0,3}(?:atob|base64|requests?\.|urllib|__import__|compile|open|input|bytes\.|codecs|fetch"
        r"|os\.|subprocess)",
        view=_CODE,
    ),
    Attack(
        _COMMAND,
        "run|execute",
        rf"{_G}(?:this{_G}|the following{_G}|these{_G})?(?:shell|system|bash|terminal|os){_G}"
        r"(?:commands?|script|code)[ \t]{0,3}:",
    ),
    Attack(
        _COMMAND,
        "run|execute|type|invoke",
        r"[ `\"':]{1,4}(?:curl|wget|(?:ba|z)?sh -c|python[0-9]? -c|perl -e|powershell -e)\b",
        view=_CODE,
    ),
    Attack(_COMMAND, "](javascript|](data", r":(?:text/html|[a-z(])", _ANY, _CODE),
    Attack(
        _PRIVILEGE,
        "rm -rf|rm -fr|rm -r -f|rm -f -r",
        r"[ \t]{1,3}(?:--no-preserve-root[ \t]{1,3})?(?:/|~/?|\$home/?|/\*)(?=[\s\"'`;&|)]|$)",
        view=_CODE,
    ),
    Attack(_PRIVILEGE, "chmod 777|chmod 0777|chmod -r 777|chmod -r 0777", r"[ \t]{1,3}/", view=_CODE),
    Attack(
        _PRIVILEGE,
        "sudo su|sudo -i|sudo -s|sudo bash|sudo sh|sudo rm|sudo dd|sudo mkfs|sudo visudo|sudo passwd",
        r"(?![a-z0-9.])",
        view=_CODE,
    ),
    Attack(
        _EXFILTRATION,
        "send|post|upload|forward|transmit|email|leak|copy|exfiltrate|report|submit",
        rf"\b(?>{_NEAR}{_SECRETS})(?>{_NEAR}\bto{_G}){_NEAR}{_AWAY}",  # the first of each: this stays linear
        view=_CODE,
    ),
    Attack(
        _EXFILTRATION,
        "send|post|upload|forward|transmit|exfiltrate",
        rf"{_G}(?:it|them|everything|this|that|all)\b(?:[a-z ]{{0,30}}){_G}to{_G}(?:https?|ftp)://",
        view=_CODE,
    ),
    Attack(
        _EXFILTRATION,
        "curl|wget",
        r"\b[^\n\[\]]{0,300}(?:\$\((?:cat|env|printenv)\b|@(?:~|/etc/|\.env|\.ssh|\.aws))",
        view=_CODE,
    ),
    Attack(
        _EXFILTRATION,
        "cat|env|printenv|tar",
        r"[ \t][^\n\[\]]{0,100}\|[ \t]{0,3}(?:curl|wget|nc|netcat|base64[^\n|]{0,20}\|[ \t]{0,3}curl)[ \t]",
        view=_CODE,
    ),
    Attack(
        _EXFILTRATION,
        "![",
        r"[^\[\]\n]{0,200}\]\(https?://[^\s()]{0,300}[?&][^\s()=]{0,60}=(?:\$?\{|<)",
        _ANY,
        _CODE,
    ),
)
ATTACKS = (*_PROSE, *_TURNS, *_COMMANDS)
