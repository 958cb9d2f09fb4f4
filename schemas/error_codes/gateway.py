"""Codes of refused requests: the HTTP status of each is in docs/http.md."""

from __future__ import annotations

from collections.abc import Mapping

from schemas.error_codes.entry import ErrorCode

CODES: Mapping[str, ErrorCode] = {
    "ambiguous_plan": ErrorCode("The beginning of an id fits several plans.", "Give more characters of the id."),
    "bad_request": ErrorCode(
        "The request is not valid HTTP, or it has two lengths.",
        "Send either `Content-Length` or `Transfer-Encoding`.",
    ),
    "busy": ErrorCode(
        "The gateway has reached its limit of open requests, bodies or streams.",
        "Wait for the seconds in `Retry-After`, then repeat the request.",
    ),
    "compressed": ErrorCode("The body has a `Content-Encoding`.", "Send the body without compression."),
    "foreign_form": ErrorCode("The form belongs to another session.", "Open the page again, then submit the form."),
    "foreign_origin": ErrorCode(
        "A page of another site sent a write.",
        "Write from the pages of the gateway, or use an API key.",
    ),
    "internal_error": ErrorCode(
        "The planner failed because of a defect.",
        "Look up the request id or the failure id in the log, and report the defect.",
    ),
    "invalid_event": ErrorCode(
        "The body or the headers are not a CloudEvent 1.0 with a goal.",
        "Send `id`, `source`, `type`, `specversion` and `data`, as docs/http.md shows.",
    ),
    "invalid_form": ErrorCode("The form is damaged or incomplete.", "Open the page again, then submit the form."),
    "invalid_json": ErrorCode(
        "The text is not valid JSON, or it cannot be stored.",
        "Correct the position that the error names.",
    ),
    "invalid_request": ErrorCode(
        "A parameter or a field of the request has the wrong form.",
        "Correct each field in `errors`.",
    ),
    "issuer_away": ErrorCode(
        "The issuer of the OIDC token does not return its keys.",
        "Repeat the request later. Check that the gateway reaches the issuer.",
    ),
    "no_answer_given": ErrorCode("The answer is empty.", "Enter an answer, or name a file."),
    "no_diff": ErrorCode("The plan stores no diff.", "Choose a step or a plan that changed files."),
    "no_entry": ErrorCode("No dead-lettered entry was selected.", "Select at least one entry."),
    "no_goal": ErrorCode("The goal has no text.", "Describe the change in one sentence."),
    "no_issuers": ErrorCode("The gateway exchanges no tokens.", "The operator sets `PLANNER_OIDC_FILE`."),
    "no_key": ErrorCode(
        "The request has no API key.",
        "Send `Authorization: Bearer KEY`, or sign in. `planner keys add` creates a key.",
    ),
    "no_preview": ErrorCode(
        "The gateway cannot read the tools or the policy, so it cannot show the steps.",
        "Correct the file that the message names, or send the goal without a preview.",
    ),
    "no_redis": ErrorCode(
        "Redis does not answer.",
        "Check that the server runs and that `PLANNER_REDIS_URL` is right, then try again.",
    ),
    "no_right": ErrorCode(
        "The key does not have the role that this request needs.",
        "Use a key with the role that the detail names.",
    ),
    "no_such_attempt": ErrorCode(
        "The step has no attempt with this number.",
        "List the attempts with `planner attempt PLAN STEP`.",
    ),
    "no_such_goal": ErrorCode(
        "The planner has no goal with this id, or it has not read the goal yet.",
        "Check the id and the tenant, then try again.",
    ),
    "no_such_method": ErrorCode(
        "This address does not accept this HTTP method.",
        "Use a method of the `Allow` header.",
    ),
    "no_such_plan": ErrorCode(
        "The planner has no plan with this id, or the plan was deleted.",
        "List plans with `planner plans`.",
    ),
    "no_such_step": ErrorCode("The plan has no step with this id.", "List the steps with `planner show PLAN`."),
    "no_transcript": ErrorCode(
        "The planner stores no transcript of this attempt.",
        "Read it on the host of the attempt with `planner attempt PLAN STEP`, or have controllers send transcripts.",
    ),
    "not_found": ErrorCode("This address does not exist.", "Check the path in docs/http.md."),
    "not_ready": ErrorCode(
        "The process cannot serve requests yet: Redis is away, or its functions are not loaded.",
        "Wait, then read the log if it does not recover.",
    ),
    "nothing_to_add": ErrorCode("No amount was given.", "Give at least one amount, such as `--tokens 50000`."),
    "nothing_to_tighten": ErrorCode(
        "Neither files nor a risk were given.",
        "Give each remaining file with `--file`, or give `--risk`.",
    ),
    "out_of_memory": ErrorCode(
        "The memory of the Redis server is full.",
        "Raise `maxmemory`, or delete old plans. The planner continues by itself.",
    ),
    "question_changed": ErrorCode("The plan asks another question now.", "Read the new question, then answer it."),
    "queue_taken": ErrorCode(
        "Keys of two tenants cannot name the same queue.",
        "Choose another queue, or create both keys for one tenant.",
    ),
    "rate_limited": ErrorCode(
        "The key has used its requests for this period.",
        "Wait for the seconds in `Retry-After`, or raise the rate of the key.",
    ),
    "refused": ErrorCode(
        "The gateway refused the request for the reason in `detail`.",
        "Correct the request as `detail` states.",
    ),
    "token_not_allowed": ErrorCode(
        "The OIDC token is valid, but no issuer entry allows its repository or ref.",
        "Add the repository to `PLANNER_OIDC_FILE`.",
    ),
    "too_large": ErrorCode(
        "The body or the file is larger than the limit.",
        "Send less. docs/http.md names the limits.",
    ),
    "too_many_at_once": ErrorCode(
        "The key or the address has too many requests open.",
        "Wait for the open requests to end.",
    ),
    "too_many_lists": ErrorCode(
        "This key follows as many lists as it may.",
        "Close one of the pages, or use another key.",
    ),
    "too_slow": ErrorCode("The body did not arrive in time.", "Send the body faster, or send less."),
    "webhooks_unavailable": ErrorCode(
        "The gateway cannot read a file of this webhook source.",
        "Correct the path or the rights of the file that the gateway's log names.",
    ),
    "wrong_cursor": ErrorCode(
        "The cursor does not come from this list.",
        "Use `next_cursor` of the previous response unchanged.",
    ),
    "wrong_host": ErrorCode(
        "The `Host` header is not a known name of the gateway.",
        "Add the name to `PLANNER_GATEWAY_HOSTS`.",
    ),
    "wrong_key": ErrorCode("The key is wrong, expired or revoked.", "Ask the operator for another key."),
    "wrong_limit": ErrorCode(
        "A limit is not a whole number, or its name is unknown.",
        "Use `--limit NAME=NUMBER` with a name from the message.",
    ),
    "wrong_media_type": ErrorCode(
        "The `Content-Type` does not fit the address.",
        "Send the type that the detail names, in UTF-8.",
    ),
    "wrong_position": ErrorCode(
        "`Last-Event-ID` is not an id of an event from this planner.",
        "Connect without the header, and read the current state.",
    ),
    "wrong_queue": ErrorCode(
        "The key or the controller may not use this queue.",
        "Use a queue of the key, or create a key with `--queue`.",
    ),
    "wrong_repository": ErrorCode("The key is limited to other repositories.", "Use a key for this repository."),
    "wrong_signature": ErrorCode(
        "A signature does not match its content.",
        "Check the secret of the webhook, or the public key of the log.",
    ),
    "wrong_tenant": ErrorCode("The key belongs to another tenant.", "Use a key of the tenant, or leave `tenant` out."),
    "wrong_token": ErrorCode(
        "The OIDC token is expired, malformed or from an unknown issuer.",
        "Request a new token with the audience of the gateway.",
    ),
    "wrong_type": ErrorCode(
        "The name is not a type of event.",
        "Use a type from docs/wire.md, such as `plan.completed` or `step.*`.",
    ),
}
