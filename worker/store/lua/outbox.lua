local OUTBOX_CAP = 100000 -- entries of the outbox, about: who has endpoints and no worker that delivers must not fill it
local TOLD_OUTSIDE = {      -- by event: the callback that tells of it. Each once a commit
  ['dev.planner.plan.completed.v1'] = 'plan.completed',
  ['dev.planner.plan.halted.v1'] = 'plan.halted',
  ['dev.planner.plan.rejected.v1'] = 'plan.rejected',
  ['dev.planner.plan.input_requested.v1'] = 'plan.input_requested',
  ['dev.planner.repository.paused.v1'] = 'repository.paused',
  ['dev.planner.step.approval_requested.v1'] = 'plan.input_requested',
}

-- Puts what callbacks are to tell into the outbox, where there is anybody to be told. Its keys are no arguments, since
-- few commits need them: they lie beside the events.
local function put_into_outbox(events, plan, id, now, what)
  local outbox = string.gsub(events, 'events$', 'outbox')
  if redis.call('EXISTS', outbox .. ':open') == 0 then return end
  local h = redis.call('HMGET', plan, 'state', 'head', 'callback')
  redis.call('XADD', outbox, 'MAXLEN', '~', OUTBOX_CAP, '*', 'type', what, 'plan', id, 'at', now,
    'state', h[1] or '', 'head', h[2] or '{}', 'callback', h[3] or '')
end
