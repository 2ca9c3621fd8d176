/** What the server is asked about records, and what it answers. */
import type { TopicApi } from '../api';
import type { Cell, IWhole } from '../grid/protocol';
import type { Tone } from '../states';

export interface IFate {
  readonly kind: string;
  readonly text: string;
  readonly snapshot_id: string | null;
}

export interface IRecord {
  readonly partition: number;
  readonly offset: number;
  readonly timestamp_ms: number;
  readonly key: Cell;
  readonly value: Cell;
  readonly error: Cell;
  readonly schema_id: string | null;
  readonly fate: IFate | null;
  readonly whole: IWholeRecord | null;
}

export interface IWholeRecord {
  readonly value: IWhole;
  readonly key: IWhole;
  readonly raw: IWhole;
  readonly headers: readonly (readonly [string, Cell])[];
  readonly registered: {
    readonly subject: string;
    readonly version: number;
    readonly columns: readonly string[];
  } | null;
}

export interface IRecords {
  readonly records: readonly IRecord[];
  readonly looked: number;
  readonly offsets: number;
  readonly cut_by: string;
  readonly go_on: Query | null;
  readonly tail: string;
  readonly notes: readonly string[];
}

/** Arguments by name: start, at, before, partition, key, where, limit, raw. */
export type Query = Readonly<Record<string, string>>;

/** Looks for records of a topic. */
export type Search = (query: Query) => Promise<IRecords>;

export function searchOf(api: TopicApi, topic: string): Search {
  return query => api.ask('GET', ['topics', topic, 'records'], undefined, query);
}

const TONES: Readonly<Record<string, Tone>> = {
  row: 'good',
  not_yet: 'quiet',
  no_row: 'note',
  dead_letter: 'bad'
};

/** How much attention what became of a record needs. */
export function toneOf(fate: IFate): Tone {
  return TONES[fate.kind] ?? 'warn';
}

/** Where a record is: the same for no other record of the topic. */
export function placeOf(record: IRecord): string {
  return `${record.partition}:${record.offset}`;
}

/** A time in UTC, as the command line has it. */
export function timeText(ms: number): string {
  const at = new Date(ms);
  return ms < 0 || Number.isNaN(at.getTime()) ? '-' : at.toISOString().replace('T', ' ').replace('Z', '');
}
