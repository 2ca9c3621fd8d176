/** The bodies of the server extension's REST interface. */
import type { JSONValue } from '@lumino/coreutils';
import type { Tone } from './states';

/** State of the servers (broker, registry, catalog) in the overview. */
export interface IServers {
  readonly state: 'ready' | 'starting' | 'stopping' | 'none' | 'unreachable';
  /** What is in progress, or what to do next. */
  readonly detail: string;
  /** Servers of the local stack that were started but do not run now. */
  readonly missing: readonly string[];
  readonly bootstrap_servers: string;
  readonly registry_url: string;
  /** Whether the settings name all of them, so there is no local stack to start or stop. */
  readonly own: boolean;
}

/** State of the hosts: who runs the table topics. */
export interface IHostState {
  readonly state: 'none' | 'starting' | 'running' | 'failed';
  readonly detail: string;
  readonly ids: readonly string[];
}

/** Whether sample events are being sent, or why they could not be. */
export interface ISample {
  readonly state: 'idle' | 'sending' | 'failed';
  readonly detail: string;
}

/** One Kafka topic in the overview; null means unknown or not applicable. */
export interface IRow {
  readonly topic: string;
  readonly enabled: boolean;
  readonly partitions: number;
  readonly run: 'on' | 'paused' | null;
  readonly table: string | null;
  readonly state: string | null;
  /** The key of its words: the delay, the state, or what a waiting or failed topic lacks. */
  readonly standing: string | null;
  /** Seconds until it has caught up at its present rate. */
  readonly caught_up_s: number | null;
  readonly paused_by: string | null;
  /** Why it is not running, or why no standing pattern enabled it. */
  readonly error: string | null;
  readonly lag_records: number | null;
  readonly lag_seconds: number | null;
  readonly schema_version: string | null;
  readonly rows_per_second: number | null;
  readonly commits: number | null;
  /** Of the table, also if the topic is disabled. */
  readonly rows: number | null;
  readonly snapshot_id: string | null;
  readonly last_commit_ms: number | null;
  /** Number of dead letters in the dead-letter table. */
  readonly dead_letters: number | null;
  /** Why the table is late although the topic runs; null if it is not. */
  readonly delay: 'waiting_for_turn' | 'behind' | 'open_transaction' | null;
  /** The same in a sentence. */
  readonly delay_reason: string | null;
}

/** What the sidebar polls. Lags are for all table topics: the sum of records, the longest time. */
export interface IOverview {
  /** The settings in use, and all that can be chosen. */
  readonly profile: string;
  readonly profiles: readonly string[];
  readonly servers: IServers;
  readonly host: IHostState;
  readonly sample: ISample;
  readonly topics: readonly IRow[];
  readonly lag_records: number;
  readonly lag_seconds: number | null;
  /** When the topics were read: before `at_ms` while the broker is unreachable; null before the first time. */
  readonly seen_ms: number | null;
  readonly at_ms: number;
}

/** A column that a table would have, and what enabling would change about it. */
export interface IPlanColumn extends IColumn {
  readonly change: 'new' | 'kept' | 'relaxed' | 'widened' | 'renamed';
}

/** What enabling would do; with a reason in `refused` it would do nothing. */
export interface IPlan {
  readonly topic: string;
  readonly table: string;
  readonly creates: boolean;
  readonly columns: readonly IPlanColumn[];
  readonly partition_by: readonly string[];
  /** Sort order of each file's rows; empty if they keep the order of arrival. */
  readonly sort_by: readonly string[];
  readonly start: string | number;
  readonly notes: readonly string[];
  /** Those of the notes that say why records may not become rows. */
  readonly warnings: readonly string[];
  readonly refused: readonly string[];
}

/** Topics to enable: those of `pattern` without those of `exclude`; `standing`: later ones, too. */
export interface IPatternWish {
  readonly pattern: string;
  /** Patterns with commas. */
  readonly exclude: string;
  readonly standing: boolean;
  /** Of all its topics; without it the server's. */
  readonly settings?: Settings;
}

/** The topics of a pattern that are not enabled yet; `refused`: why one cannot be. */
export interface IEnablings {
  readonly topics: readonly {
    readonly topic: string;
    readonly table: string;
    readonly refused: readonly string[];
    /** Why its records may not become rows. */
    readonly warnings: readonly string[];
  }[];
}

/** A pattern by which hosts enable topics as they come, and the topics that it matches now. */
export interface IStandingPattern {
  readonly pattern: string;
  readonly exclude: readonly string[];
  readonly settings: Settings;
  readonly requested_by: string;
  readonly enabled: readonly string[];
  /** By somebody, so it leaves them off. */
  readonly disabled: readonly string[];
  /** New, or they cannot be enabled. */
  readonly others: readonly string[];
}

/** Dead letters that match a condition in SQL; without one, all. */
export interface ISelectedLetters {
  readonly where?: string;
}

/** What a replay of a topic's dead letters would do. */
export interface IReplayPlan {
  readonly letters: number;
  /** Dead letters that would become rows. */
  readonly rows: number;
  /** Those that would stay, by reason. */
  readonly stayed: Readonly<Record<string, number>>;
  /** Changes to the table that it would cause. */
  readonly changes: readonly string[];
}

/** A column; its type as text, such as `struct<width: int>`. */
export interface IColumn {
  readonly name: string;
  readonly type: string;
  readonly required: boolean;
  readonly doc: string | null;
}

/** A registered schema; `table_schema_id` is null while none of its records was read. */
export interface ISchemaVersion {
  readonly subject: string;
  readonly version: number;
  readonly id: number | string;
  readonly table_schema_id: number | null;
}

/** Columns of a topic's table, and the registered versions of its schema. */
export interface ITopicSchema {
  readonly table: string;
  readonly columns: readonly IColumn[];
  readonly versions: readonly ISchemaVersion[];
}

/** An event of the control topic, and what happened in words; further fields depend on its type. */
export interface IEvent {
  readonly type: string;
  readonly text: string;
  readonly tone: Tone;
  readonly topic: string;
  readonly at_ms: number;
  readonly [more: string]: JSONValue;
}

/** A query that ran, as the text of its cell. */
export interface IPastQuery {
  readonly cell: string;
  readonly at_ms: number;
  readonly failed: boolean;
}

/** A query with a name. */
export interface ISavedQuery {
  readonly name: string;
  readonly cell: string;
}

/** Saved queries by name, and the last ones, newest first. */
export interface IQueries {
  readonly saved: readonly ISavedQuery[];
  readonly history: readonly IPastQuery[];
}

/** Settings of one table topic, by the server's names. */
export type Settings = Record<string, JSONValue>;

/** The parts of JSON Schema that the settings' model uses. */
export interface IFieldSchema {
  readonly type?: string;
  readonly format?: string;
  /** Ours; without it, a field is labelled by its name. */
  readonly label?: string;
  readonly description?: string;
  readonly default?: JSONValue;
  readonly enum?: readonly JSONValue[];
  readonly const?: JSONValue;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly anyOf?: readonly IFieldSchema[];
  readonly items?: IFieldSchema;
  readonly additionalProperties?: IFieldSchema | boolean;
  readonly $ref?: string;
}

/** JSON Schema of a table topic's settings. */
export interface ISettingsSchema {
  readonly properties: Readonly<Record<string, IFieldSchema>>;
  readonly $defs?: Readonly<Record<string, IFieldSchema>>;
}
