-- The turnlog store. Events are appended, never updated or deleted; the triggers
-- hold every connection to that. docs/format.md says what each column means.

CREATE TABLE IF NOT EXISTS conversations (
    key INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE,
    name TEXT UNIQUE,
    parent INTEGER REFERENCES conversations (key),
    forked_at INTEGER,
    named INTEGER NOT NULL DEFAULT 0 CHECK (named IN (0, 1)),
    name_salt BLOB,
    CHECK ((parent IS NULL) = (forked_at IS NULL)),
    CHECK ((name IS NULL) = (name_salt IS NULL))
) STRICT;

CREATE INDEX IF NOT EXISTS conversations_by_parent ON conversations (parent) WHERE parent IS NOT NULL;

CREATE TABLE IF NOT EXISTS events (
    position INTEGER PRIMARY KEY CHECK (position > 0),
    conversation INTEGER NOT NULL REFERENCES conversations (key),
    version INTEGER NOT NULL CHECK (version > 0),
    type TEXT NOT NULL,
    v INTEGER NOT NULL,
    scope TEXT,
    id TEXT,
    recorded_at INTEGER NOT NULL,
    occurred_at INTEGER,
    frame TEXT NOT NULL,
    body TEXT,
    salt BLOB,
    body_digest BLOB,
    digest BLOB NOT NULL,
    CHECK ((body IS NULL) = (salt IS NULL) AND (body IS NULL) = (body_digest IS NOT NULL))
) STRICT;

-- A conversation in order. The scope tells which rows are worth reading; that a version comes once is the trigger's to hold.
CREATE INDEX IF NOT EXISTS events_by_version ON events (conversation, version, scope);

CREATE UNIQUE INDEX IF NOT EXISTS events_by_id ON events (conversation, id) WHERE id IS NOT NULL;

-- The events whose writer says when they happened: the others are in the order of their times as they are recorded.
CREATE INDEX IF NOT EXISTS events_by_time ON events (conversation, version, occurred_at)
WHERE occurred_at IS NOT NULL;

-- Only the few events that are not plain messages: what changes the shape of a view, notes among it, and redactions.
CREATE INDEX IF NOT EXISTS events_by_type ON events (conversation, type, version)
WHERE type <> 'message' OR instr(frame, '"role":"system"') > 0;

-- What the trigger on updates asks for, once per redacted event.
CREATE INDEX IF NOT EXISTS events_by_target ON events (conversation, json_extract(frame, '$.target'))
WHERE type = 'redaction';

-- INSERT OR REPLACE deletes without firing delete triggers, so the insert itself is looked at.
-- (position is -1 here while SQLite has not chosen it yet.)
CREATE TRIGGER IF NOT EXISTS events_are_appended BEFORE INSERT ON events
WHEN (NEW.position > 0 AND NEW.position <= (SELECT max(position) FROM events))
  OR EXISTS (SELECT 1 FROM events WHERE conversation = NEW.conversation AND version >= NEW.version)
  OR (NEW.id IS NOT NULL
      AND EXISTS (SELECT 1 FROM events WHERE conversation = NEW.conversation AND id = NEW.id))
BEGIN
    SELECT RAISE(ABORT, 'turnlog: events are only appended');
END;

CREATE TRIGGER IF NOT EXISTS events_are_not_deleted BEFORE DELETE ON events
BEGIN
    SELECT RAISE(ABORT, 'turnlog: events are never deleted');
END;

-- The one door: a redaction event of the same conversation names the version, and nothing
-- but the body and its salt goes.
CREATE TRIGGER IF NOT EXISTS events_are_not_updated BEFORE UPDATE ON events
WHEN NEW.position IS NOT OLD.position
  OR NEW.conversation IS NOT OLD.conversation
  OR NEW.version IS NOT OLD.version
  OR NEW.type IS NOT OLD.type
  OR NEW.v IS NOT OLD.v
  OR NEW.scope IS NOT OLD.scope
  OR NEW.id IS NOT OLD.id
  OR NEW.recorded_at IS NOT OLD.recorded_at
  OR NEW.occurred_at IS NOT OLD.occurred_at
  OR NEW.frame IS NOT OLD.frame
  OR NEW.digest IS NOT OLD.digest
  OR NEW.body IS NOT NULL
  OR OLD.body IS NULL
  OR length(NEW.body_digest) IS NOT 32
  OR NOT EXISTS (
      SELECT 1 FROM events AS redaction
      WHERE redaction.conversation = OLD.conversation
        AND redaction.type = 'redaction'
        AND json_extract(redaction.frame, '$.target') = OLD.version
        AND redaction.version > OLD.version)
BEGIN
    SELECT RAISE(ABORT, 'turnlog: events are never updated');
END;

CREATE TRIGGER IF NOT EXISTS conversations_are_not_deleted BEFORE DELETE ON conversations
BEGIN
    SELECT RAISE(ABORT, 'turnlog: conversations are never deleted');
END;

CREATE TRIGGER IF NOT EXISTS conversations_are_appended BEFORE INSERT ON conversations
WHEN EXISTS (SELECT 1 FROM conversations WHERE key = NEW.key OR uuid = NEW.uuid OR name = NEW.name)
BEGIN
    SELECT RAISE(ABORT, 'turnlog: conversations are only appended');
END;

CREATE TRIGGER IF NOT EXISTS conversations_change_only_their_name BEFORE UPDATE ON conversations
WHEN NEW.key IS NOT OLD.key
  OR NEW.uuid IS NOT OLD.uuid
  OR NEW.parent IS NOT OLD.parent
  OR NEW.forked_at IS NOT OLD.forked_at
  OR NEW.named < OLD.named
  OR (NEW.name_salt IS NOT OLD.name_salt AND OLD.name IS NOT NULL AND NEW.name IS NOT NULL)
  OR EXISTS (SELECT 1 FROM conversations WHERE name = NEW.name AND key <> OLD.key)
BEGIN
    SELECT RAISE(ABORT, 'turnlog: only the name of a conversation can change');
END;

-- What was said, for people: one row a message, response or summary, hidden ones included.
CREATE VIEW IF NOT EXISTS messages AS
SELECT
    coalesce(conversations.name, conversations.uuid) AS conversation,
    events.version,
    events.scope,
    events.type,
    CASE events.type
        WHEN 'response' THEN 'assistant'
        ELSE coalesce(json_extract(events.frame, '$.role'), 'user')
    END AS role,
    coalesce(
        CASE events.type
            WHEN 'response' THEN json_extract(events.body, '$.response')
            WHEN 'summary' THEN json_extract(events.body, '$.text')
            ELSE json_extract(events.body, '$.content')
        END,
        CASE
            WHEN events.body IS NULL
                AND coalesce(json_extract(events.frame, '$.parts'), json_extract(events.frame, '$.text')) IS NOT NULL
            THEN coalesce((
                SELECT coalesce(json_extract(redaction.body, '$.replacement'), '[redacted]') FROM events AS redaction
                WHERE redaction.conversation = events.conversation AND redaction.type = 'redaction'
                    AND json_extract(redaction.frame, '$.target') = events.version
                    AND json_extract(redaction.frame, '$.replacement') IS NOT NULL
                ORDER BY redaction.version DESC LIMIT 1
            ), '[redacted]')
            ELSE ''
        END
    ) AS content,
    json_extract(events.body, '$.tool_calls') AS tool_calls,
    json_extract(events.frame, '$.tool_call_id') AS tool_call_id,
    json_extract(events.frame, '$.assistant') AS assistant,
    strftime('%Y-%m-%dT%H:%M:%S', events.recorded_at / 1000000, 'unixepoch')
        || printf('.%06dZ', events.recorded_at % 1000000) AS recorded_at,
    -- (The remainder of a time before 1970 is below 0.)
    strftime('%Y-%m-%dT%H:%M:%S', (coalesce(events.occurred_at, events.recorded_at)
        - (coalesce(events.occurred_at, events.recorded_at) % 1000000 + 1000000) % 1000000) / 1000000, 'unixepoch')
        || printf('.%06dZ', (coalesce(events.occurred_at, events.recorded_at) % 1000000 + 1000000) % 1000000) AS time
FROM events
JOIN conversations ON conversations.key = events.conversation
WHERE events.type IN ('message', 'summary')
   OR (events.type = 'response' AND json_extract(events.frame, '$.status') = 'completed');

-- Each transfer; from_assistant is what the event says, else the destination of the transfer
-- before it in its scope, else the first assistant declared there (rewinds are not looked at).
CREATE VIEW IF NOT EXISTS handoffs AS
SELECT
    coalesce(conversations.name, conversations.uuid) AS conversation,
    events.version,
    events.scope,
    coalesce(
        json_extract(events.frame, '$.from'),
        (SELECT json_extract(earlier.frame, '$.to') FROM events AS earlier
         WHERE earlier.conversation = events.conversation AND earlier.type = 'transfer' AND earlier.type <> 'message'
           AND earlier.version < events.version AND earlier.scope = events.scope
         ORDER BY earlier.version DESC LIMIT 1),
        (SELECT json_extract(first.frame, '$.assistant') FROM events AS first
         WHERE first.conversation = events.conversation AND first.type = 'assistant' AND first.type <> 'message'
           AND first.version < events.version AND first.scope = events.scope
         ORDER BY first.version LIMIT 1)
    ) AS from_assistant,
    json_extract(events.frame, '$.to') AS to_assistant,
    coalesce(json_extract(events.frame, '$.mode'), 'rolling-history') AS mode,
    coalesce(json_extract(events.frame, '$.context.type'), 'all') AS context,
    json_extract(events.frame, '$.tool_call_id') AS tool_call_id,
    coalesce(json_extract(events.frame, '$.inferred'), 0) AS inferred,
    json_extract(events.body, '$.reason') AS reason,
    strftime('%Y-%m-%dT%H:%M:%S', events.recorded_at / 1000000, 'unixepoch')
        || printf('.%06dZ', events.recorded_at % 1000000) AS recorded_at,
    -- (The remainder of a time before 1970 is below 0.)
    strftime('%Y-%m-%dT%H:%M:%S', (coalesce(events.occurred_at, events.recorded_at)
        - (coalesce(events.occurred_at, events.recorded_at) % 1000000 + 1000000) % 1000000) / 1000000, 'unixepoch')
        || printf('.%06dZ', (coalesce(events.occurred_at, events.recorded_at) % 1000000 + 1000000) % 1000000) AS time
FROM events
JOIN conversations ON conversations.key = events.conversation
WHERE events.type = 'transfer';

-- Timelines: of each scope of a conversation, from which version until which every message is visible. They are
-- derived from the log, hold no text, and may be dropped at any time. docs/timelines.md says what each column means.
CREATE TABLE IF NOT EXISTS timelines (
    line INTEGER PRIMARY KEY,
    conversation INTEGER NOT NULL,
    scope TEXT NOT NULL,
    what_if TEXT NOT NULL,
    rules INTEGER NOT NULL,
    version INTEGER NOT NULL,
    secret BLOB NOT NULL,
    path TEXT NOT NULL,
    UNIQUE (conversation, scope, what_if, rules)
) STRICT;

CREATE TABLE IF NOT EXISTS segments (
    line INTEGER NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    conversation INTEGER NOT NULL,
    PRIMARY KEY (line, first)
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS spans (
    line INTEGER NOT NULL,
    place INTEGER NOT NULL,
    since INTEGER NOT NULL,
    until INTEGER,
    why INTEGER,
    form INTEGER NOT NULL,
    assistant INTEGER,
    version INTEGER,
    source INTEGER,
    removed TEXT,
    why_by INTEGER,
    rule INTEGER,
    by INTEGER,
    PRIMARY KEY (line, place, since)
) STRICT, WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS spans_ended ON spans (line, until) WHERE until IS NOT NULL;
CREATE INDEX IF NOT EXISTS spans_late ON spans (line, since) WHERE since <> place / 4;
CREATE INDEX IF NOT EXISTS spans_moved ON spans (line, version) WHERE version IS NOT NULL;
CREATE INDEX IF NOT EXISTS spans_source ON spans (line, source) WHERE source IS NOT NULL;
CREATE INDEX IF NOT EXISTS spans_prompts ON spans (line, place) WHERE until IS NULL AND form & 7 = 3;
CREATE INDEX IF NOT EXISTS spans_invisible ON spans (line, place) WHERE until IS NULL AND why IS NOT NULL;

CREATE TABLE IF NOT EXISTS hidings (
    line INTEGER NOT NULL,
    version INTEGER NOT NULL,
    origin INTEGER NOT NULL,
    since INTEGER NOT NULL,
    rule INTEGER NOT NULL,
    by INTEGER NOT NULL,
    shared INTEGER NOT NULL,
    ended INTEGER NOT NULL,
    ended_by INTEGER NOT NULL,
    PRIMARY KEY (line, version, origin, since)
) STRICT, WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS hidings_since ON hidings (line, since);

CREATE TABLE IF NOT EXISTS uses (
    line INTEGER NOT NULL,
    id INTEGER NOT NULL,
    version INTEGER NOT NULL,
    part INTEGER NOT NULL,
    since INTEGER NOT NULL,
    call INTEGER,
    call_part INTEGER,
    open INTEGER,
    PRIMARY KEY (line, id, version, part, since)
) STRICT, WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS uses_open ON uses (line, id, version) WHERE open IS NOT NULL;
CREATE INDEX IF NOT EXISTS uses_by_call ON uses (line, call, call_part) WHERE call IS NOT NULL;
CREATE INDEX IF NOT EXISTS uses_again ON uses (line, id, version, part, since) WHERE since <> version;

CREATE TABLE IF NOT EXISTS meanings (
    line INTEGER NOT NULL,
    transfer INTEGER NOT NULL,
    call INTEGER NOT NULL,
    part INTEGER NOT NULL,
    PRIMARY KEY (line, transfer)
) STRICT, WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS meanings_by_call ON meanings (line, call);

CREATE TABLE IF NOT EXISTS facts (
    line INTEGER NOT NULL,
    name TEXT NOT NULL,
    since INTEGER NOT NULL,
    value TEXT,
    PRIMARY KEY (line, name, since)
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS blocks (
    line INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    level INTEGER NOT NULL,
    block INTEGER NOT NULL,
    since INTEGER NOT NULL,
    until INTEGER,
    PRIMARY KEY (line, kind, level, block, since)
) STRICT, WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS blocks_open ON blocks (line, kind, level, block) WHERE until IS NULL;

CREATE TABLE IF NOT EXISTS counts (
    line INTEGER NOT NULL,
    version INTEGER NOT NULL,
    visible INTEGER NOT NULL,
    hidden INTEGER NOT NULL,
    PRIMARY KEY (line, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS notes (
    line INTEGER NOT NULL,
    version INTEGER NOT NULL,
    rule TEXT NOT NULL,
    call TEXT NOT NULL,
    PRIMARY KEY (line, version, rule, call)
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS names (
    line INTEGER NOT NULL,
    code INTEGER NOT NULL,
    name TEXT NOT NULL,
    since INTEGER NOT NULL,
    PRIMARY KEY (line, code)
) STRICT, WITHOUT ROWID;

-- What handoffs cost in cache: derived from texts, so that a redaction deletes those of every conversation that may show it.
CREATE TABLE IF NOT EXISTS costs (
    line INTEGER NOT NULL,
    version INTEGER NOT NULL,
    mode TEXT NOT NULL,
    wire TEXT NOT NULL,
    revision INTEGER NOT NULL,
    messages INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    kept INTEGER NOT NULL,
    lost INTEGER NOT NULL,
    point TEXT,
    changed TEXT,
    by INTEGER,
    PRIMARY KEY (line, version, mode, wire, revision)
) STRICT, WITHOUT ROWID;

-- What models could see: from which version until which each message was visible, and what ended that. `cause` is the
-- transfer that ended it, whatever the rule; `lost` is true where the message went, not only its form, and the transfer
-- is still on the path. `turnlog query` catches the timelines up before it reads this.
CREATE VIEW IF NOT EXISTS visible AS
WITH words (origins, roles, rules) AS (
    VALUES (
        '["message", "response", "summary", "prompt", "first_message", "destination_message"]',
        '["user", "assistant", "tool", "system"]',
        '[
            "rewind",
            "summary",
            "clear",
            "assistant",
            "orphan-result",
            "duplicate-result",
            "replaced-result",
            "summary-covers-nothing-visible",
            "transfer:rolling-history",
            "transfer:swap-system-message-in-history",
            "transfer:swap-system-message-in-history-and-remove-transfer-tool-messages",
            "transfer:delete-history",
            "context:all",
            "context:lastNMessages",
            "context:userAndAssistantMessages",
            "context:previousAssistantMessages",
            "context:none"
        ]'
    )
)
SELECT
    coalesce(conversations.name, conversations.uuid) AS conversation,
    timelines.scope,
    coalesce(spans.version, spans.place / 4) AS version,
    words.origins ->> ('$[' || (spans.form & 7) || ']') AS origin,
    words.roles ->> ('$[' || (spans.form >> 3 & 3) || ']') AS role,
    names.name AS assistant,
    CASE
        WHEN events.body IS NULL THEN coalesce((
                SELECT coalesce(json_extract(redaction.body, '$.replacement'), '[redacted]') FROM events AS redaction
                WHERE redaction.conversation = events.conversation AND redaction.type = 'redaction'
                    AND json_extract(redaction.frame, '$.target') = events.version
                    AND json_extract(redaction.frame, '$.replacement') IS NOT NULL
                ORDER BY redaction.version DESC LIMIT 1
            ), '[redacted]')
        ELSE coalesce(json_extract(events.body, CASE spans.form & 7
            WHEN 0 THEN '$.content'
            WHEN 1 THEN '$.response'
            WHEN 2 THEN '$.text'
            WHEN 3 THEN '$.system'
            WHEN 4 THEN '$.first_message'
            ELSE '$.message'
        END), '')
    END AS content,
    spans.since,
    spans.until,
    words.rules ->> ('$[' || spans.rule || ']') AS rule,
    CASE WHEN spans.until IS NOT NULL THEN coalesce(spans.by, spans.until) END AS by,
    ended.version AS cause,
    ended.version IS NOT NULL
        AND NOT EXISTS (
            SELECT 1 FROM spans AS later
            WHERE later.line = spans.line AND later.place = spans.place AND later.since = spans.until
                AND later.form & 7 = spans.form & 7 AND later.version IS spans.version AND later.why IS NULL
        )
        AND EXISTS (
            SELECT 1 FROM json_each(timelines.path) AS path
            WHERE spans.until BETWEEN path.value ->> 0 AND path.value ->> 1
        ) AS lost
FROM timelines
JOIN words
JOIN conversations ON conversations.key = timelines.conversation
JOIN spans ON spans.line = timelines.line
LEFT JOIN names ON names.line = spans.line AND names.code = spans.assistant
LEFT JOIN segments ON segments.line = spans.line
    AND coalesce(spans.source, spans.version, spans.place / 4) BETWEEN segments.first AND segments.last
LEFT JOIN events ON events.conversation = segments.conversation
    AND events.version = coalesce(spans.source, spans.version, spans.place / 4)
LEFT JOIN segments AS cause ON cause.line = spans.line AND spans.until BETWEEN cause.first AND cause.last
LEFT JOIN events AS ended ON ended.conversation = cause.conversation AND ended.version = spans.until
    AND ended.type = 'transfer'
WHERE spans.why IS NULL
    AND timelines.what_if = ''
    AND timelines.rules = (SELECT max(rules) FROM timelines);
