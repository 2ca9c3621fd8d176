/** States, numbers and durations as text, like on the command line. */
import type { TranslationBundle } from '@jupyterlab/translation';
import type { IRow } from './api';

/** How much attention something needs. Each tone has a colour and a sign, so that colour is never the only cue. */
export type Tone = 'good' | 'busy' | 'note' | 'quiet' | 'warn' | 'bad';

/** One word for a state, with its tone. */
export interface IWord {
  readonly text: string;
  readonly tone: Tone;
}

const TONES: Readonly<Record<string, Tone>> = {
  running: 'good',
  staged: 'good',
  committing: 'good',
  settling: 'busy',
  starting: 'busy',
  draining: 'busy',
  dropping: 'busy',
  closing: 'busy',
  closing_settling: 'busy',
  closed: 'quiet',
  stopped: 'quiet',
  paused: 'quiet',
  waiting: 'warn',
  no_host: 'warn',
  failed: 'bad'
};

/** The word for a row's state; null for a topic that is not enabled. */
export function stateWord(row: IRow, trans: TranslationBundle): IWord | null {
  if (!row.enabled) {
    return null;
  }
  switch (row.delay) {
    case 'waiting_for_turn':
      return { text: trans.__('waiting for turn'), tone: 'warn' };
    case 'behind':
      return { text: trans.__('behind'), tone: 'warn' };
  }
  const state = row.state ?? 'starting';
  return { text: stateText(state, trans), tone: TONES[state] ?? 'quiet' };
}

function stateText(state: string, trans: TranslationBundle): string {
  switch (state) {
    case 'running':
    case 'staged':
    case 'committing':
      // These three follow each other within a second: one word, or the row would flicker.
      return trans.__('running');
    case 'settling':
      return trans.__('settling');
    case 'starting':
      return trans.__('starting');
    case 'draining':
    case 'dropping':
    case 'closing':
    case 'closing_settling':
      return trans.__('stopping');
    case 'closed':
    case 'stopped':
      return trans.__('stopped');
    case 'paused':
      return trans.__('paused');
    case 'waiting':
      return trans.__('waiting');
    case 'no_host':
      return trans.__('no host');
    case 'failed':
      return trans.__('failed');
    default:
      return state;
  }
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
