/** What a result's output holds, and what its kernel is asked; Python's side is `faces/notebook/results`. */

export const MIME = 'application/vnd.tabletopic.result+json';
export const TARGET = 'tabletopic_result';
export const PAGE_ROWS = 100;

/** A text, null, or the beginning of a long text with its length. */
export type Cell = string | readonly [string, number] | null;

export interface IColumn {
  readonly name: string;
  readonly type: string;
  readonly number: boolean;
}

/** The output: the first page, and the key of the rows that the kernel keeps. */
export interface IResult {
  readonly result: string;
  readonly columns: readonly IColumn[];
  readonly rows: readonly (readonly Cell[])[];
  readonly total: number;
  /** Whether the query had more rows than were fetched. */
  readonly truncated: boolean;
  readonly notes: readonly string[];
}

/** Column, comparison, text. */
export type Filter = readonly [number, string, string];

/** Column, and whether it is descending. */
export type SortKey = readonly [number, boolean];

export interface ISelection {
  readonly filters: readonly Filter[];
  readonly sort: readonly SortKey[];
}

export interface IPage {
  readonly at: number;
  readonly total: number;
  readonly rows: readonly (readonly Cell[])[];
}

/** Nested values: a text, null, or pairs of name and value. */
export type Tree = string | null | readonly (readonly [string, Tree])[];

export interface IWhole {
  readonly text?: string | null;
  readonly hex?: string;
  readonly tree?: Tree;
  readonly length?: number;
}

export interface IProfile {
  readonly nulls: number;
  readonly distinct: number;
  readonly exact: boolean;
  readonly min: Cell;
  readonly max: Cell;
  readonly bins?: readonly number[];
  readonly top?: readonly (readonly [Cell, string])[];
}

export interface IChart {
  readonly spec: Readonly<Record<string, unknown>>;
  readonly x: number;
  readonly y: number | null;
  readonly code: string | null;
}

/** Whether a cell of this type has more to see than its text. */
export function isNested(type: string): boolean {
  return /^(STRUCT|MAP|BLOB)|\]$/.test(type);
}

/** How a cell is shown: null is a word of its own. */
export function cellText(cell: Cell): string {
  return cell === null ? 'null' : typeof cell === 'string' ? cell : `${cell[0]}…`;
}
