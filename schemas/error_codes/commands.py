"""Codes of commands that fail before they reach the planner."""

from __future__ import annotations

from collections.abc import Mapping

from schemas.error_codes.entry import ErrorCode

CODES: Mapping[str, ErrorCode] = {
    "cannot_listen": ErrorCode(
        "The process cannot open its port.",
        "Choose a free port, or stop the process that uses it.",
    ),
    "demo_failed": ErrorCode(
        "The demo ended in another state than planned.",
        "Run it again with `--keep`, and report the output.",
    ),
    "demo_needs": ErrorCode("A program that the demo runs is missing.", "Install the packages that the message names."),
    "endpoint_disabled": ErrorCode("The callback endpoint is disabled.", "Enable it with `planner endpoints enable`."),
    "gateway_ended": ErrorCode(
        "The gateway of `planner up` stopped.",
        "Read its log, correct the cause, then start again.",
    ),
    "no_verification": ErrorCode(
        "The landing of this plan verified nothing, so it cannot be landed again.",
        "Send the goal again with `planner submit`, with a verification such as `--test-command`.",
    ),
    "goal_not_kept": ErrorCode(
        "The planner no longer stores the goal of this plan.",
        "Send the goal again with `planner submit`.",
    ),
    "invalid_folder": ErrorCode(
        "The folder does not have the files of a reviewed plan.",
        "Create the files that the message names.",
    ),
    "invalid_inbox": ErrorCode(
        "The inbox file does not have the format of a gap report's inbox.",
        "Correct the line that the message names.",
    ),
    "invalid_report": ErrorCode(
        "The JUnit report cannot be read.",
        "Create the report again, as XML in the JUnit format.",
    ),
    "invalid_roadmap": ErrorCode(
        "The roadmap cannot be read, or it is not UTF-8.",
        "Correct the file, and save it as UTF-8.",
    ),
    "invalid_sarif": ErrorCode("The SARIF file cannot be read.", "Create the file again, as SARIF 2.1.0."),
    "line_too_long": ErrorCode(
        "A line of the plan's log is larger than the limit.",
        "Export the plan with `PLANNER_REDIS_URL`.",
    ),
    "needs_redis": ErrorCode(
        "This command works with Redis only, and `PLANNER_URL` names a gateway.",
        "Set `PLANNER_REDIS_URL`, and unset `PLANNER_URL`.",
    ),
    "no_agent": ErrorCode(
        "The agent is unknown, not installed, or missing for an option.",
        "Install the agent, or choose one with `--agent`.",
    ),
    "no_aim": ErrorCode(
        "The command does not name a plan, a goal or a filter.",
        "Give an id, or one of the options in the message.",
    ),
    "no_answer": ErrorCode(
        "The planner did not answer the command in time.",
        "Check that workers run with `planner doctor`.",
    ),
    "no_editor": ErrorCode("The editor does not start.", "Set `VISUAL` or `EDITOR` to a program on the `PATH`."),
    "no_exports": ErrorCode(
        "The folder has no exported plans.",
        "Write exports with `planner export PLAN -o FILE.json`.",
    ),
    "no_file": ErrorCode("No file was named.", "Give `--file`, or set `PLANNER_WEBHOOKS_FILE`."),
    "no_git": ErrorCode("Git is missing or too old.", "Install git 2.38 or newer."),
    "no_holdout": ErrorCode("A held-out test cannot be read.", "Check the path after `--holdout`."),
    "no_memory": ErrorCode(
        "The file is not an export of `planner memory export`.",
        "Export the memory again, or correct the entry that the message names.",
    ),
    "no_page": ErrorCode("`--page` does not work with `--json`.", "Leave one of the two options out."),
    "no_parts": ErrorCode(
        "The memory of a fingerprint has attempts only.",
        "Name the repository to choose tests, changes or drafts.",
    ),
    "no_permission": ErrorCode(
        "The Redis account may not do this.",
        "Use the account of the planner, or add the rights from docs/security.md.",
    ),
    "no_planner": ErrorCode(
        "No planner answers at `PLANNER_URL`.",
        "Check the address. `planner up` starts a planner on this machine.",
    ),
    "no_policy": ErrorCode(
        "No policy is in force: the built-in rules apply.",
        "Put a policy in force with `planner policy apply FILE`.",
    ),
    "no_report": ErrorCode("`--test` chooses among the tests of a report.", "Add `--from-junit FILE`."),
    "no_sandbox": ErrorCode(
        "This host cannot confine agents.",
        "Install bubblewrap, or read docs/sandbox.md for the other ways.",
    ),
    "no_secret_file": ErrorCode(
        "The file with the secrets of endpoints cannot be read.",
        "Set `PLANNER_SECRET_FILE` to a readable file.",
    ),
    "no_server": ErrorCode(
        "The embedded Redis server did not start.",
        "Read the message. Check the folder and its free space.",
    ),
    "no_such_address": ErrorCode(
        "This machine does not have the address.",
        "Give an address of this machine to `--host`.",
    ),
    "no_such_endpoint": ErrorCode(
        "No callback endpoint has this name.",
        "List the names with `planner endpoints list`.",
    ),
    "no_such_entry": ErrorCode("No dead-lettered entry has this name.", "List the entries with `planner dead list`."),
    "no_such_key": ErrorCode("No API key has this id.", "List the keys with `planner keys list`."),
    "no_such_policy": ErrorCode(
        "No stored policy has this version.",
        "List the versions with `planner policy history`.",
    ),
    "no_such_source": ErrorCode(
        "The webhooks file has no source with this name.",
        "Use one of the names in the message.",
    ),
    "no_such_test": ErrorCode("The report has no failed test with this name.", "Copy the name from the report."),
    "no_summary": ErrorCode("The summary could not be written.", "Check the file, then run `planner summary PLAN`."),
    "no_tls": ErrorCode(
        "The process and Redis do not agree on TLS.",
        "Compare the scheme, the port and the certificates with docs/redis.md.",
    ),
    "no_token": ErrorCode(
        "The CI job returned no OIDC token.",
        "Give the job the permission `id-token: write`, or set `PLANNER_API_KEY`.",
    ),
    "no_verdict": ErrorCode(
        "The planner did not decide about the goal in time.",
        "Check that workers run with `planner doctor`. The goal stays queued.",
    ),
    "not_asked": ErrorCode("The command needs a confirmation, and no terminal is there.", "Add `--yes`."),
    "not_drafted": ErrorCode(
        "No agent has drafted a document of this plan.",
        "Wait for the draft, or choose another plan.",
    ),
    "not_edited": ErrorCode(
        "The editor failed, or the file was not saved.",
        "Edit again, and save the file. Nothing was sent.",
    ),
    "not_ended": ErrorCode("The plan did not end in time.", "Follow it with `planner show PLAN`. It goes on."),
    "not_here": ErrorCode(
        "The log of this attempt is not on this machine, or it was deleted.",
        "Run the command on the machine that the message names.",
    ),
    "not_installed": ErrorCode("A Python package is missing.", "Install the extra that the message names."),
    "not_private": ErrorCode(
        "The gateway would serve other machines without TLS.",
        "Use `--certfile` and `--keyfile`, or `--behind-proxy`.",
    ),
    "not_replayable": ErrorCode(
        "The dead-lettered entry cannot be sent again.",
        "Edit it with `--edit`, or send a new message.",
    ),
    "not_utf8": ErrorCode("The text is not UTF-8.", "Save the text as UTF-8."),
    "nothing_remembered": ErrorCode(
        "The planner remembers nothing about this repository.",
        "Check the repository and the tenant.",
    ),
    "old_redis": ErrorCode("The server is too old for the planner.", "Install a version that the message names."),
    "older_gateway": ErrorCode(
        "The gateway is older than this command.",
        "Update the gateway, or use `PLANNER_REDIS_URL`.",
    ),
    "one_entry": ErrorCode("`--edit` works with one entry.", "Name one entry."),
    "only_tokens": ErrorCode("A day budget has tokens only.", "Give `--tokens` alone."),
    "partitions_in_use": ErrorCode(
        "The number of partitions cannot change while plans or messages exist.",
        "Let the plans end, and stop the workers first.",
    ),
    "plan_not_ended": ErrorCode(
        "The plan has not ended, so it cannot be retried.",
        "Wait for its end, or halt it with `planner halt PLAN`.",
    ),
    "plan_not_kept": ErrorCode(
        "The plan was deleted, so no plan can follow it.",
        "Send a new goal with `planner submit`.",
    ),
    "plan_unfolds": ErrorCode(
        "The steps of this plan depend on earlier answers.",
        "Retry the whole plan, without `--from`.",
    ),
    "redirect": ErrorCode(
        "The address of the gateway redirects to another one.",
        "Set `PLANNER_URL` to the final address.",
    ),
    "redis_loading": ErrorCode("Redis is loading its data.", "Wait, then try again."),
    "redis_refused": ErrorCode(
        "Redis refused the command.",
        "Read the reason. Check the rights of the account and the version of the server.",
    ),
    "several_aims": ErrorCode(
        "The command names several plans or filters that exclude each other.",
        "Leave all but one out.",
    ),
    "tampered": ErrorCode(
        "A line of the log was changed after it was written.",
        "Read docs/record.md, and compare the log with an anchor.",
    ),
    "token_refused": ErrorCode(
        "The gateway did not exchange the OIDC token.",
        "Read the reason. The operator checks `PLANNER_OIDC_FILE`.",
    ),
    "two_addresses": ErrorCode("`PLANNER_URL` and `PLANNER_REDIS_URL` are both set.", "Unset one of them."),
    "two_parts": ErrorCode("The command takes one part at a time.", "Give `--test`, `--changes` or `--drafts` alone."),
    "two_places": ErrorCode("The option contradicts `--repos`, whose file has this setting.", "Leave the option out."),
    "unknown_queue": ErrorCode("The worker has no queue with this name.", "Use one of the names in the message."),
    "unknown_word": ErrorCode("The value is not one of the choices.", "Use one of the values in the message."),
    "unreadable_file": ErrorCode("The file cannot be read.", "Check its path and its rights."),
    "unsafe_redis": ErrorCode(
        "The server may lose acknowledged data, or it deletes data when its memory is full.",
        "Correct the server's configuration as the message states. `PLANNER_ALLOW_UNSAFE_REDIS=1` accepts the risk.",
    ),
    "unwritable_file": ErrorCode("The file cannot be written.", "Check its folder, its rights and the free space."),
    "unwritable_folder": ErrorCode("The folder cannot be written.", "Check its rights and the free space."),
    "which_deliveries": ErrorCode("No delivery was named.", "Name deliveries, or give `--failed`."),
    "which_entries": ErrorCode(
        "No dead-lettered entry was named.",
        "Name entries, or give `--cause`, `--stream`, `--since` or `--all`.",
    ),
    "worker_ended": ErrorCode(
        "The worker of `planner up` stopped.",
        "Read its log, correct the cause, then start again.",
    ),
    "wrong_agent": ErrorCode(
        "The definition or the options of the agent contradict each other.",
        "Correct the option that the message names. docs/agents.md has all fields.",
    ),
    "wrong_certificate": ErrorCode(
        "A certificate or its key cannot be used or trusted.",
        "For a server, give `--certfile` and `--keyfile` that belong together. For a client, set `SSL_CERT_FILE`.",
    ),
    "wrong_endpoint": ErrorCode(
        "The callback endpoint is not valid.",
        "Correct the URL or the option that the message names.",
    ),
    "wrong_header": ErrorCode("A header is not in the form `NAME: VALUE`.", "Correct `--header`."),
    "wrong_head": ErrorCode(
        "The head is not a digest of 32 characters.",
        "Copy `head` from the last event of the plan.",
    ),
    "wrong_kind": ErrorCode(
        "The option or command does not fit the kind of this goal.",
        "Add `--kind` with the kind that the message names.",
    ),
    "wrong_logs": ErrorCode("The folder of `--logs` cannot be used.", "Choose a folder that the controller may write."),
    "wrong_option": ErrorCode(
        "Options contradict each other, or a value is missing.",
        "Correct the options that the message names.",
    ),
    "wrong_order": ErrorCode(
        "A field of the command does not fit its schema.",
        "Correct the field that the message names.",
    ),
    "wrong_password": ErrorCode(
        "Redis refuses the user or the password.",
        "Correct `PLANNER_REDIS_URL`, or set the password that Redis asks for.",
    ),
    "wrong_path": ErrorCode("A path of the sandbox is not valid.", "Read the reason, and correct the path."),
    "wrong_policy": ErrorCode(
        "The file is not a policy.",
        "Correct each key in `errors`. docs/policies.md has all keys.",
    ),
    "wrong_repositories": ErrorCode("The file of `--repos` is not valid.", "Correct the line that the message names."),
    "wrong_settings": ErrorCode(
        "A setting is not valid, or it contradicts the server.",
        "Correct the variable that the message names.",
    ),
    "wrong_setup": ErrorCode("`--setup` cannot be split into words.", "Close each quote in the command."),
    "wrong_time": ErrorCode(
        "A time or a length of time is not valid, or it is in the past.",
        "Use a length such as `30m`, `2h` or `1d`, or a time such as `2026-11-28T10:00:00Z`.",
    ),
    "wrong_user": ErrorCode(
        "The user of `--agent-user` cannot run agents.",
        "Read the reason, and name another user of this host.",
    ),
    "wrong_variable": ErrorCode(
        "The variable cannot be passed to an agent.",
        "Give the name of a variable without its value. The planner's own variables are refused.",
    ),
    "wrong_webhooks": ErrorCode("The webhooks file has errors.", "Correct each line that the message names."),
}
