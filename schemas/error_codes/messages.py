"""Codes of messages that the planner refuses or dead-letters."""

from __future__ import annotations

from collections.abc import Mapping

from schemas.error_codes.entry import ErrorCode

CODES: Mapping[str, ErrorCode] = {
    "command_refused": ErrorCode(
        "The command does not fit the state of its plan or step.",
        "Read the reason, and check the state with `planner show PLAN`.",
    ),
    "command_too_large": ErrorCode("The command is larger than the limit.", "Shorten its texts."),
    "forge_lookup_failed": ErrorCode(
        "The forge did not return the files of a webhook's commit.",
        "Check the token and the address of the forge, then replay the delivery.",
    ),
    "goal_conflict": ErrorCode("The goal id was already used for another goal.", "Choose a new id for the new goal."),
    "goal_too_large": ErrorCode(
        "The goal is larger than the limit.",
        "Shorten its logs and documents, or list fewer files.",
    ),
    "idempotency_key_reused": ErrorCode(
        "The `Idempotency-Key` was already used with another body.",
        "Use a new key for each new body.",
    ),
    "invalid_message": ErrorCode(
        "Fields of the message do not fit their schema.",
        "Correct each field in `errors`. The schemas are in docs/schemas.",
    ),
    "missing_plan_id": ErrorCode("The outcome does not name its plan.", "Copy `plan_id` from the step spec."),
    "no_data": ErrorCode("The stream entry has no field `data`.", "Put the JSON message into the field `data`."),
    "outcome_too_large": ErrorCode(
        "The outcome is larger than the limit.",
        "Shorten the diff or the logs, and send them as attachments.",
    ),
    "output_too_large": ErrorCode("The field `output` is larger than the limit.", "Return a shorter answer."),
    "poison": ErrorCode(
        "Processing the message failed several times.",
        "Read the worker's log, correct the cause, then use `planner dead replay`.",
    ),
    "policy_unreadable": ErrorCode(
        "The policy in force cannot be read.",
        "Put a readable policy in force with `planner policy apply`.",
    ),
    "tenant_full": ErrorCode(
        "The tenant has as many waiting goals or live plans as its quota allows.",
        "Wait until plans end, or raise the quota.",
    ),
    "unknown_plan": ErrorCode(
        "The message names a plan that does not exist.",
        "Check the id. Plans are deleted some days after they end.",
    ),
    "unreadable": ErrorCode("The worker failed to read the message.", "Read the worker's log, then replay the entry."),
    "unsupported_scope": ErrorCode(
        "The command does not work with this scope.",
        "Use a scope of the command from docs/wire.md.",
    ),
}
