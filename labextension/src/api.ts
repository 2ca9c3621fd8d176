/** The server extension's REST interface, typed; independent of widgets. */
import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import type { JSONValue, ReadonlyJSONObject } from '@lumino/coreutils';
import type {
  IColumn,
  IEnablings,
  IEvent,
  IOverview,
  IPatternWish,
  IPlan,
  IQueries,
  IReplayPlan,
  ISelectedLetters,
  IRow,
  ISettingsSchema,
  IStandingPattern,
  ITopicSchema,
  Settings
} from './answers';

export type * from './answers';

/** The root of all paths, below the server's base URL. */
const NAMESPACE = 'tabletopic/api';
const PROFILE_HEADER = 'X-Table-Topic-Profile';

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

  /** The profile that this page shows, from the first overview on: the server refuses its requests in another. */
  profile: string | null = null;

  overview(): Promise<IOverview> {
    return this.ask('GET', ['overview']);
  }

  chooseProfile(name: string): Promise<void> {
    return this.ask('PUT', ['profiles', name]);
  }

  /** Write the file of a new profile. */
  addProfile(name: string): Promise<{ readonly file: string }> {
    return this.ask('POST', ['profiles', name]);
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

  planPattern({ pattern, ...how }: IPatternWish): Promise<IEnablings> {
    return this.ask('POST', ['patterns', pattern, 'plan'], how);
  }

  enablePattern({ pattern, ...how }: IPatternWish): Promise<IEnablings> {
    return this.ask('PUT', ['patterns', pattern], how);
  }

  /** The patterns that stay. */
  patterns(): Promise<{ readonly patterns: readonly IStandingPattern[] }> {
    return this.ask('GET', ['patterns']);
  }

  /** End a standing pattern; topics that are enabled stay so. */
  forgetPattern(pattern: string): Promise<void> {
    return this.ask('DELETE', ['patterns', pattern]);
  }

  /** Pause, resume or commit now; compact or expire, whose outcome an event reports. */
  tell(topic: string, wish: 'pause' | 'resume' | 'commit' | 'compact' | 'expire'): Promise<void> {
    return this.ask('POST', ['topics', topic, wish]);
  }

  planReplay(topic: string, letters: ISelectedLetters): Promise<IReplayPlan> {
    return this.ask('POST', ['topics', topic, 'replay', 'plan'], { ...letters });
  }

  /** Replay dead letters; an event reports the outcome. */
  replay(topic: string, letters: ISelectedLetters): Promise<void> {
    return this.ask('POST', ['topics', topic, 'replay'], { ...letters });
  }

  events(topic: string, limit: number): Promise<{ readonly events: readonly IEvent[] }> {
    return this.ask('GET', ['topics', topic, 'events'], undefined, { limit: String(limit) });
  }

  /** A table's columns; the page of tables asks for more. */
  table(name: string): Promise<{ readonly columns?: readonly IColumn[] }> {
    return this.ask('GET', ['tables', name]);
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

  /** Saved queries, and those of the history that contain a word. */
  queries(word: string): Promise<IQueries> {
    return this.ask('GET', ['queries'], undefined, { word });
  }

  saveQuery(name: string, cell: string): Promise<void> {
    return this.ask('PUT', ['queries', name], { cell });
  }

  deleteQuery(name: string): Promise<void> {
    return this.ask('DELETE', ['queries', name]);
  }

  /** Empty the history; saved queries stay. */
  forgetQueries(): Promise<void> {
    return this.ask('DELETE', ['queries']);
  }

  /** Address of the dashboard's page; `topic` null: the overview, `pane` null: all of it. */
  dashboardUrl(topic: string | null, pane: string | null, dark: boolean): string {
    const query: Record<string, string> = { theme: dark ? 'dark' : 'default' };
    if (topic !== null) {
      query.topic = topic;
    }
    if (pane !== null) {
      query.pane = pane;
    }
    if (this.profile !== null) {
      query.profile = this.profile;
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
    if (this.profile !== null && !['overview', 'profiles'].includes(path[0] ?? '')) {
      init.headers = { [PROFILE_HEADER]: this.profile };
    }
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
