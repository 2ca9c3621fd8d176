/** What the page asks the server about catalogs and registry; Python's side is `workbench/catalog`. */
import type { IColumn, TopicApi } from '../api';

export interface ITables {
  readonly tables: readonly {
    readonly catalog: string;
    readonly namespace: string;
    readonly name: string;
    /** As in a query. */
    readonly table: string;
  }[];
  /** Why the tables of a catalog are not known. */
  readonly troubles: readonly string[];
}

export interface ISnapshot {
  readonly snapshot_id: string;
  readonly at_ms: number;
  readonly operation: string;
  readonly added_rows: number;
  readonly rows: number;
  readonly files: number;
}

export interface ITable {
  readonly table: string;
  readonly topic: string | null;
  readonly location: string;
  readonly format_version: number;
  readonly rows: number | null;
  readonly files: number | null;
  readonly columns: readonly IColumn[];
  readonly partition_by: readonly string[];
  readonly sort_by: readonly string[];
  readonly snapshots: readonly ISnapshot[];
  readonly snapshot_count: number;
  readonly refs: readonly string[];
  readonly properties: Readonly<Record<string, string>>;
}

interface ISized {
  readonly partition: string;
  readonly rows: number;
  readonly bytes: number;
}

/** The largest partitions and files; the counts are of all. */
export interface IFiles {
  readonly partition_count: number;
  readonly file_count: number;
  readonly bytes: number;
  readonly partitions: readonly (ISized & { readonly files: number })[];
  readonly files: readonly (ISized & { readonly path: string; readonly content: string })[];
  readonly columns: readonly {
    readonly name: string;
    readonly nulls: number | null;
    readonly lower: string | null;
    readonly upper: string | null;
    readonly bytes: number | null;
  }[];
}

export interface IDifference {
  readonly rows: number;
  readonly files: number;
  readonly changes: readonly string[];
}

export interface IVersion {
  readonly version: number;
  readonly id: number | string | null;
  readonly kind: string;
  readonly text: string;
  readonly references: readonly string[];
  readonly error: string | null;
}

export interface ISubject {
  readonly subject: string;
  readonly compatibility: string;
  readonly topics: readonly string[];
  readonly version_count: number;
  readonly versions: readonly IVersion[];
}

/** The questions; each throws ApiError. */
export class CatalogApi {
  constructor(private readonly _api: TopicApi) {}

  tables(): Promise<ITables> {
    return this._api.ask('GET', ['tables']);
  }

  table(name: string): Promise<ITable> {
    return this._api.ask('GET', ['tables', name]);
  }

  files(name: string): Promise<IFiles> {
    return this._api.ask('GET', ['tables', name, 'files']);
  }

  difference(name: string, before: string, after: string): Promise<IDifference> {
    return this._api.ask('GET', ['tables', name, 'difference'], undefined, { before, after });
  }

  async subjects(): Promise<readonly string[]> {
    const { subjects } = await this._api.ask<{ readonly subjects: readonly string[] }>('GET', ['subjects']);
    return subjects;
  }

  subject(name: string): Promise<ISubject> {
    return this._api.ask('GET', ['subjects', name]);
  }
}
