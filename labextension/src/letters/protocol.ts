/** What the server is asked about dead letters, and what it answers. */
import type { TopicApi } from '../api';
import type { IRecord } from '../records/protocol';

export interface IGroup {
  readonly reason: string;
  readonly letters: number;
  readonly first_ms: number;
  readonly last_ms: number;
  /** Begin of a step of time in ms, and the letters in it. */
  readonly counts: readonly (readonly [number, number])[];
  readonly message: string;
}

export interface ILetters {
  readonly letters: number;
  readonly step_ms: number;
  readonly groups: readonly IGroup[];
  /** The newest. */
  readonly records: readonly IRecord[];
}

export class LettersApi {
  constructor(
    private readonly _api: TopicApi,
    private readonly _topic: string
  ) {}

  /** Those that match a condition; an empty one matches all. */
  look(where: string, limit: number): Promise<ILetters> {
    return this._api.ask('GET', this._path('records'), undefined, { ...conditionOf(where), limit: String(limit) });
  }

  /** One record whole; null if its letter has gone. */
  async whole({ partition, offset }: IRecord): Promise<IRecord | null> {
    const where = `partition = ${partition} AND "offset" = ${offset}`;
    const query = { where, limit: '1', raw: 'true' };
    const { records } = await this._api.ask<ILetters>('GET', this._path('records'), undefined, query);
    return records[0] ?? null;
  }

  /** The newest ones as `tabletopic letters --json` has them. */
  file(where: string, limit: number): Promise<Readonly<Record<string, unknown>>> {
    return this._api.ask('GET', this._path(), undefined, { ...conditionOf(where), limit: String(limit) });
  }

  /** Have the host remove them; an event reports the outcome. */
  drop(where: string, note: string): Promise<void> {
    return this._api.ask('POST', this._path('drop'), { note, ...conditionOf(where) });
  }

  private _path(...more: readonly string[]): string[] {
    return ['topics', this._topic, 'letters', ...more];
  }
}

/** The argument of a condition, if there is one. */
export function conditionOf(where: string): { where?: string } {
  return where.trim() === '' ? {} : { where };
}

const MOST_STEPS = 60;

/** The counts of the last steps up to `last_ms`, with zeros between. */
export function steps({ counts, first_ms, last_ms }: IGroup, step_ms: number): number[] {
  const known = new Map(counts);
  const last = Math.floor(last_ms / step_ms);
  const first = Math.max(Math.floor(first_ms / step_ms), last - MOST_STEPS + 1);
  return Array.from({ length: last - first + 1 }, (_, at) => known.get((first + at) * step_ms) ?? 0);
}
