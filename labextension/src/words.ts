/** States, numbers and durations as text. */
import type { TranslationBundle } from '@jupyterlab/translation';
import type { IRow } from './api';
import type { Tone } from './states';
import { STATES } from './states';

/** One word for a state, with its tone. */
export interface IWord {
  readonly text: string;
  readonly tone: Tone;
}

/** The key of a row's words. */
function standingOf({ standing, delay, state }: IRow): string {
  return standing ?? delay ?? state ?? 'starting';
}

/** The rank by which the list begins with what needs a person. */
export function needOf(row: IRow): number {
  const tone = row.enabled ? STATES[standingOf(row)]?.tone : row.error === null ? undefined : 'warn';
  return tone === 'bad' ? 0 : tone === 'warn' || (row.dead_letters ?? 0) > 0 ? 1 : 2;
}

/** The word for a row's state, which a stale row does not know; null for a topic that is not enabled. */
export function stateWord(row: IRow, trans: TranslationBundle, stale = false): IWord | null {
  if (!row.enabled) {
    return null;
  }
  const state = stale ? 'unknown' : standingOf(row);
  const words = STATES[state];
  return words === undefined ? { text: state, tone: 'quiet' } : { text: trans.__(words.text), tone: words.tone };
}

/** The reason for a row's state, and the section of the manual on it. */
export function withPage(reason: string | null, row: IRow): string | null {
  const section = STATES[standingOf(row)]?.section;
  return reason === null || section === undefined ? reason : `${reason} (see “Manual: trouble ${section}”)`;
}

/** How far the table is behind, short enough for a sidebar: records, and the age of the oldest. */
export function lagText(records: number | null, seconds: number | null, trans: TranslationBundle): string {
  if (records === null) {
    return trans.__('lag unknown');
  }
  if (records === 0) {
    return trans.__('up to date');
  }
  const count = trans.__('%1 behind', number(records));
  return seconds === null || seconds <= 0 ? count : `${count} · ${duration(seconds)}`;
}

const WHOLE = new Intl.NumberFormat(undefined, { maximumFractionDigits: 0 });

const ONE_DIGIT = new Intl.NumberFormat(undefined, { minimumFractionDigits: 1, maximumFractionDigits: 1 });

/** A count with separators, in the browser's locale. */
export function number(value: number): string {
  return WHOLE.format(value);
}

/** A duration: "0.4 s", "12 s", "3 m 20 s", "2 h 5 m", "3 d 4 h". */
export function duration(seconds: number): string {
  if (seconds < 10) {
    return `${ONE_DIGIT.format(seconds)} s`;
  }
  const whole = Math.floor(seconds);
  if (whole < 60) {
    return `${whole} s`;
  }
  if (whole < 3600) {
    return `${Math.floor(whole / 60)} m ${whole % 60} s`;
  }
  if (whole < 86400) {
    return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} m`;
  }
  return `${number(Math.floor(whole / 86400))} d ${Math.floor((whole % 86400) / 3600)} h`;
}

/** How long ago, in its largest unit. */
export function ago(momentMs: number, nowMs: number, trans: TranslationBundle): string {
  const seconds = Math.max(0, Math.floor((nowMs - momentMs) / 1000));
  if (seconds < 60) {
    return trans.__('%1 s ago', seconds);
  }
  if (seconds < 3600) {
    return trans.__('%1 m ago', Math.floor(seconds / 60));
  }
  return seconds < 86400
    ? trans.__('%1 h ago', Math.floor(seconds / 3600))
    : trans.__('%1 d ago', number(Math.floor(seconds / 86400)));
}
