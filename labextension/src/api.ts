/** The server extension's REST interface, typed; independent of widgets. */
import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import type { JSONValue, ReadonlyJSONObject } from '@lumino/coreutils';
import type { Tone } from './states';

/** The root of all paths, below the server's base URL. */
const NAMESPACE = 'tabletopic/api';

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
  readonly refused: readonly string[];
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

/** Settings of one table topic, by the server's names. */
export type Settings = Record<string, JSONValue>;

/** The parts of JSON Schema that the settings' model uses. */
export interface IFieldSchema {
  readonly type?: string;
  readonly format?: string;
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

/** A response other than the requested one: `message` says what to do next. */
export class ApiError extends Error {
  constructor(
    message: string,
    /** The HTTP status; 0 without any response. */
    readonly status: number
  ) {
    super(message);
    this.name = 'ApiError';
  }
}

/** The client. Every method throws ApiError. */
export class TopicApi {
  constructor(readonly server: ServerConnection.ISettings) {}

  overview(): Promise<IOverview> {
    return this.ask('GET', ['overview']);
  }

  detail(topic: string): Promise<ReadonlyJSONObject & { readonly settings?: Settings }> {
    return this.ask('GET', ['topics', topic]);
  }

  settingsSchema(): Promise<ISettingsSchema> {
    return this.ask('GET', ['settings-schema']);
  }

  plan(topic: string, settings: Settings): Promise<IPlan> {
    return this.ask('POST', ['topics', topic, 'plan'], { settings });
  }

  enable(topic: string, settings: Settings): Promise<IRow> {
    return this.ask('PUT', ['topics', topic], { settings });
  }

  disable(topic: string): Promise<void> {
    return this.ask('DELETE', ['topics', topic]);
  }

  /** Pause, resume or commit now; compact or expire, whose outcome an event reports. */
  tell(topic: string, wish: 'pause' | 'resume' | 'commit' | 'compact' | 'expire'): Promise<void> {
    return this.ask('POST', ['topics', topic, wish]);
  }

  planReplay(topic: string): Promise<IReplayPlan> {
    return this.ask('POST', ['topics', topic, 'replay', 'plan']);
  }

  /** Replay all dead letters; an event reports the outcome. */
  replay(topic: string): Promise<void> {
    return this.ask('POST', ['topics', topic, 'replay']);
  }

  events(topic: string, limit: number): Promise<{ readonly events: readonly IEvent[] }> {
    return this.ask('GET', ['topics', topic, 'events'], undefined, { limit: String(limit) });
  }

  schema(topic: string): Promise<ITopicSchema> {
    return this.ask('GET', ['topics', topic, 'schema']);
  }

  startStack(): Promise<void> {
    return this.ask('POST', ['stack']);
  }

  stopStack(): Promise<void> {
    return this.ask('DELETE', ['stack']);
  }

  startHost(): Promise<void> {
    return this.ask('POST', ['host']);
  }

  stopHost(): Promise<void> {
    return this.ask('DELETE', ['host']);
  }

  /** Send sample events to the topic `clicks`. */
  sample(count: number): Promise<void> {
    return this.ask('POST', ['sample'], { count });
  }

  /** Path of the quickstart notebook among the server's files; copied there first if missing. */
  quickstart(): Promise<{ readonly path: string }> {
    return this.ask('POST', ['quickstart']);
  }

  /** A page of the manual, as Markdown. */
  page(name: string): Promise<{ readonly text: string }> {
    return this.ask('GET', ['manual', name]);
  }

  /** Address of the dashboard's page. */
  dashboardUrl(topic: string | null, dark: boolean): string {
    const query: Record<string, string> = { theme: dark ? 'dark' : 'default' };
    if (topic !== null) {
      query.topic = topic;
    }
    return this.url(['dashboard'], query);
  }

  private url(path: readonly string[], query: Record<string, string> = {}): string {
    const parts = path.map(encodeURIComponent);
    const url = URLExt.join(this.server.baseUrl, NAMESPACE, ...parts);
    const text = new URLSearchParams(query).toString();
    return text ? `${url}?${text}` : url;
  }

  /** Any other request. */
  async ask<T>(
    method: string,
    path: readonly string[],
    body?: ReadonlyJSONObject,
    query?: Record<string, string>
  ): Promise<T> {
    const init: RequestInit = { method };
    if (body !== undefined) {
      init.body = JSON.stringify(body);
    }
    let response: Response;
    try {
      response = await ServerConnection.makeRequest(this.url(path, query), init, this.server);
    } catch (error) {
      throw new ApiError(error instanceof Error ? error.message : String(error), 0);
    }
    const text = await response.text();
    const data = parsed(text);
    if (!response.ok) {
      throw new ApiError(messageOf(data) ?? `${response.status} ${response.statusText}`, response.status);
    }
    return data as T;
  }
}

/** The message for the user about anything that was thrown. */
export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function parsed(text: string): JSONValue {
  try {
    return text ? JSON.parse(text) : null;
  } catch {
    return null; // a proxy's error page is HTML
  }
}

function messageOf(data: JSONValue): string | null {
  if (data !== null && typeof data === 'object' && !Array.isArray(data)) {
    const { message } = data;
    return typeof message === 'string' && message ? message : null;
  }
  return null;
}
