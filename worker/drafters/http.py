"""The drafter `http`: a model behind OpenAI's chat completions, or of another provider.

Providers are those of pydantic-ai (extra `llm`). Each question has its own event loop, so that a worker of any pool can
ask. The provider's library repeats nothing: calls are repeated here, within the time of the whole answer.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any

from pydantic_ai import ModelRequest, ModelSettings
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelNotFoundError,
    ModelRateLimitError,
    ModelRequestRejectedError,
    ModelServerError,
    ModelUnavailableError,
    UnexpectedModelBehavior,
    UserError,
)
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters, infer_model
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.providers import Provider, infer_provider, infer_provider_class
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

from schemas.contract.strict import strict_form
from tasks.rules.strategy import Consult, Drafted
from tasks.text.secrets import fit_redacted
from worker.drafters.base import MAX_ANSWER, MAX_ERROR, STOPPED, Stop, Stopwatch, WrongDrafter, estimate, secrets_of
from worker.telemetry import tracing

if TYPE_CHECKING:
    from worker.settings.settings import Settings

log = logging.getLogger("planner.drafters")

POLL_S = 0.5  # between two looks whether the answer is still wanted
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0
OPENAI = ("openai:", "openai-chat:", "openai-responses:")
ANOTHER_TIME = (ModelRateLimitError, ModelUnavailableError, ModelServerError, ModelConnectionError)
SCHEMA_FIELD = "response_format"
NOT_THE_SCHEMA = (ModelAuthenticationError, ModelNotFoundError, ModelContextWindowExceededError)
MOST = 10**9  # tokens of a call: a higher count is an error


class TooLong(Exception):
    """The answer is longer than any plan needs."""


class Unfinished(Exception):
    """The provider cut the answer before its end."""


class Tally:
    """Counts the tokens of one question, over all of its calls; estimates those that the provider did not count."""

    def __init__(self, prompt: str) -> None:
        self._prompt = prompt
        self._past = 0  # of calls that have ended
        self._guess = 0  # of the call that goes on

    def __int__(self) -> int:
        return self._past + self._guess

    def hear(self, answer: str) -> None:
        """Record the part of the current answer that has arrived."""
        self._guess = estimate(self._prompt, answer)

    def end(self, counted: int) -> None:
        """Count a successful call.

        `counted` is the provider's number of tokens. If it is 0 or implausible, the estimate counts.
        """
        self._past, self._guess = self._past + (counted if 0 < counted <= MOST else self._guess), 0

    def fail(self, is_refused: bool) -> None:
        """Count a failed call; a refused one cost nothing."""
        self._past, self._guess = self._past + (0 if is_refused else self._guess), 0


class HttpDrafter:
    """Asks the configured model."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        key = settings.llm_api_key
        self._key = key.get_secret_value() if key else None
        self._secrets = secrets_of(settings)
        self._has_native_schema = settings.planning_schema_mode in ("auto", "native")
        try:
            self._model()
        except (ImportError, TypeError, UserError, ValueError) as error:
            why = fit_redacted(str(error), MAX_ERROR, self._secrets)
            raise WrongDrafter(f"PLANNER_LLM_MODEL: {settings.llm_model} cannot be used: {why}") from error

    def ask(self, question: Consult, stop: Stop) -> Drafted:
        """Answer `question` within PLANNER_LLM_TIMEOUT_S."""
        watch, tally = Stopwatch(), Tally(question.prompt)
        answer = asyncio.run(self._watched(question, stop, watch, tally))
        said = {"drafter": "http", "tokens": answer.tokens, "duration_ms": answer.duration_ms}
        log.info("draft answered" if answer.error is None else "draft failed", extra=said)
        return answer

    def _model(self) -> Model[Any]:
        """Return the model with a separate connection; nothing is sent yet."""
        name, here = self._settings.llm_model or "", self._settings
        if here.llm_base_url:
            for prefix in OPENAI:
                name = name.removeprefix(prefix)
            return OpenAIChatModel(
                name, provider=OpenAICompatibleProvider("llm", base_url=here.llm_base_url, api_key=self._key)
            )
        return infer_model(name, self._provider if self._key else infer_provider)

    def _provider(self, name: str) -> Provider[Any]:
        make: Callable[..., Provider[Any]] = infer_provider_class(name)
        return make(api_key=self._key)

    async def _watched(self, question: Consult, stop: Stop, watch: Stopwatch, tally: Tally) -> Drafted:
        """Return the answer; or a failure at the timeout, or as soon as `stop` returns True."""
        limit = self._settings.llm_timeout_s
        asking = asyncio.create_task(self._answer(question, watch, tally))
        try:
            while not (await asyncio.wait({asking}, timeout=min(POLL_S, max(0, limit - watch.passed_s))))[0]:
                if stop():
                    return watch.failure(STOPPED, int(tally))
                if watch.passed_s >= limit:
                    return watch.failure(f"no answer within {limit:g} s", int(tally))
            return asking.result()
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    async def _answer(self, question: Consult, watch: Stopwatch, tally: Tally) -> Drafted:
        try:
            async with self._model() as model:
                said = await self._repeated(model, question, watch, tally)
                return watch.answer(said, int(tally), self._secrets)
        except ModelHTTPError as error:
            why = f"HTTP {error.status_code}: {error.body or 'without a body'}"
            return watch.failure(why, int(tally), self._secrets)
        except Exception as error:
            if not isinstance(error, ModelAPIError | UnexpectedModelBehavior | TooLong | Unfinished):
                log.exception("draft broke")
            return watch.failure(f"{type(error).__name__}: {error}", int(tally), self._secrets)

    async def _repeated(self, model: Model[Any], question: Consult, watch: Stopwatch, tally: Tally) -> str:
        """Call until there is an answer. Raises the last error if a retry is useless or too late."""
        asked = _parameters(model, question) if self._has_native_schema else ModelRequestParameters()
        pauses = count()
        while True:
            try:
                return await self._call(model, question.prompt, asked, tally)
            except Exception as error:
                tally.fail(is_refused=isinstance(error, ModelHTTPError) and not error.in_stream)
                if self._is_about_the_schema(error, asked):
                    asked = ModelRequestParameters()
                    continue
                pause = _pause(error, next(pauses), self._settings.llm_max_retries)
                if pause is None or watch.passed_s + pause >= self._settings.llm_timeout_s:
                    raise
                log.warning("draft call repeated", extra={"error": type(error).__name__, "pause_s": round(pause, 3)})
            await asyncio.sleep(pause)

    def _is_about_the_schema(self, error: Exception, asked: ModelRequestParameters) -> bool:
        """Return whether the endpoint may have refused the schema, so that a call without it can succeed.

        The schema is then at most in the prompt.
        """
        if not asked.output_object or self._settings.planning_schema_mode != "auto":
            return False
        if isinstance(error, ModelHTTPError) and SCHEMA_FIELD in str(error.body):
            return True  # for any status: llama-cpp-python's server returns 500
        return isinstance(error, ModelRequestRejectedError) and not isinstance(error, NOT_THE_SCHEMA)

    async def _call(self, model: Model[Any], prompt: str, asked: ModelRequestParameters, tally: Tally) -> str:
        here = self._settings
        settings = ModelSettings(max_tokens=here.llm_max_output_tokens, timeout=here.llm_timeout_s, max_retries=0)
        messages = [ModelRequest.user_text_prompt(prompt)]
        tally.hear("")  # the prompt is paid for in any case
        if here.llm_stream:
            async with model_request_stream(
                model, messages, model_settings=settings, model_request_parameters=asked
            ) as stream:
                async for _ in stream:
                    tally.hear(_text(stream.get()))
                response = stream.get()
        else:
            response = await model_request(model, messages, model_settings=settings, model_request_parameters=asked)
        text = _text(response)
        tally.hear(text)
        used = response.usage
        tally.end(used.input_tokens + used.output_tokens)
        if response.finish_reason == "length":
            raise Unfinished(f"the answer was cut after {used.output_tokens} tokens (PLANNER_LLM_MAX_OUTPUT_TOKENS)")
        tracing.add(
            {
                "gen_ai.usage.input_tokens": used.input_tokens,
                "gen_ai.usage.output_tokens": used.output_tokens,
                "gen_ai.usage.cache_read.input_tokens": used.cache_read_tokens,
                "gen_ai.usage.cache_creation.input_tokens": used.cache_write_tokens,
            }
        )
        return text


def _parameters(model: Model[Any], question: Consult) -> ModelRequestParameters:
    """Return a request for JSON by the schema, if the model supports it."""
    if question.schema is None or not model.profile.get("supports_json_schema_output", False):
        return ModelRequestParameters()
    strict = strict_form(question.schema)
    wanted = OutputObjectDefinition(json_schema=strict or dict(question.schema), name="answer", strict=bool(strict))
    return ModelRequestParameters(output_mode="native", output_object=wanted)


def _text(response: ModelResponse) -> str:
    text = response.text or ""
    if len(text) > MAX_ANSWER:
        raise TooLong(f"the answer is longer than {MAX_ANSWER} characters")
    return text


def _pause(error: Exception, repeated: int, most: int) -> float | None:
    """Return the seconds until the next call; None if a retry is useless."""
    if repeated >= most or not isinstance(error, ANOTHER_TIME):
        return None
    retry_after: float | None = error.retry_after
    if retry_after is not None:
        return max(0.0, retry_after)
    longest = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**repeated)
    return float(longest * random.uniform(0.5, 1.0))  # noqa: S311 - so that workers do not call in step
