/** Events of the control topic as text, like `tabletopic events`. */
import type { TranslationBundle } from '@jupyterlab/translation';
import type { JSONValue } from '@lumino/coreutils';
import type { IEvent } from './api';
import type { Tone } from './words';
import { number } from './words';

const TONES: Readonly<Record<string, Tone>> = {
  Committed: 'good',
  Enabled: 'good',
  Resumed: 'good',
  SchemaEvolved: 'note',
  CommitFailed: 'warn',
  DeadLettered: 'warn',
  SchemaRefused: 'bad',
  GapDetected: 'bad',
  Failed: 'bad'
};

/** Maintenance by the owner: files compacted or removed. */
const MAINTENANCE: Readonly<Record<string, true>> = { Compacted: true, Expired: true, OrphansRemoved: true };

/** How much attention an event needs. */
export function eventTone(event: IEvent): Tone {
  if (event.type === 'Replayed' || event.type in MAINTENANCE) {
    return event.error == null ? 'good' : 'bad';
  }
  return event.type === 'Failed' && event.waits === true ? 'warn' : (TONES[event.type] ?? 'quiet');
}

/** What happened, without time and topic. */
export function eventText(event: IEvent, trans: TranslationBundle): string {
  switch (event.type) {
    case 'Enabled':
      return trans.__('taken over by a host, epoch %1', plain(event.epoch));
    case 'FilesStaged':
      return trans.__('%1 rows staged', count(event.rows));
    case 'Committed':
      return trans._n(
        '%2 rows committed in one file',
        '%2 rows committed in %3 files',
        Number(event.files),
        count(event.rows),
        count(event.files)
      );
    case 'CommitFailed':
      return trans.__('a commit failed: %1', plain(event.reason));
    case 'Failed':
      return event.waits === true
        ? trans.__('%1; waiting to retry', plain(event.reason))
        : plain(event.reason);
    case 'SchemaEvolved':
      return withCause(list(event.changes), event.cause, trans);
    case 'SchemaRefused':
      return withCause(entries(event.refused, ([column, why]) => `${column} ${plain(why)}`), event.cause, trans);
    case 'DeadLettered':
      return trans.__(
        'dead letters: %1',
        entries(event.counts, ([reason, rows]) => `${reason} ${count(rows)}`)
      );
    case 'Replayed':
      return replayedText(event, trans);
    case 'Compacted':
      return withError(
        event.files_before === 0
          ? trans.__('no small files to compact')
          : event.dead_letters === true
            ? trans.__('%1 files of dead letters compacted to %2', count(event.files_before), count(event.files))
            : trans.__('%1 files compacted to %2', count(event.files_before), count(event.files)),
        event.error
      );
    case 'Expired':
      return withError(
        trans.__('%1 old snapshots and %2 files removed', count(event.snapshots), count(event.files)),
        event.error
      );
    case 'OrphansRemoved':
      return withError(trans.__('%1 orphan files removed', count(event.files)), event.error);
    case 'GapDetected':
      return entries(event.missing, ([partition, offsets]) => {
        const [wanted, first] = Array.isArray(offsets) ? offsets : [];
        return trans.__('partition %1: next offset was %2, the first available is %3', partition, count(wanted), count(first));
      });
    case 'Paused':
      return trans.__('paused');
    case 'Resumed':
      return trans.__('resumed');
    case 'Stopped':
      return trans.__('released by its host');
    case 'CommitRequested':
      return trans.__('commit requested');
    default:
      return event.type;
  }
}

function withError(text: string, error: JSONValue | undefined): string {
  return error == null ? text : `${text}; ${plain(error)}`;
}

function replayedText(event: IEvent, trans: TranslationBundle): string {
  const rows = trans._n('%2 dead letter became a row', '%2 dead letters became rows', Number(event.rows), count(event.rows));
  const stayed = entries(event.stayed, ([reason, letters]) => `${reason} ${count(letters)}`);
  const text = stayed === '' ? rows : trans.__('%1; still dead letters: %2', rows, stayed);
  return withError(text, event.error);
}

function plain(value: JSONValue | undefined): string {
  return typeof value === 'string' ? value : JSON.stringify(value ?? null);
}

function count(value: JSONValue | undefined): string {
  return typeof value === 'number' ? number(value) : plain(value);
}

function list(value: JSONValue | undefined): string {
  return Array.isArray(value) ? value.map(plain).join('; ') : '';
}

function entries(value: JSONValue | undefined, say: (entry: [string, JSONValue]) => string): string {
  return value !== null && typeof value === 'object' && !Array.isArray(value)
    ? Object.entries(value).map(say).join('; ')
    : '';
}

function withCause(text: string, cause: JSONValue | undefined, trans: TranslationBundle): string {
  return cause !== null && typeof cause === 'object' && !Array.isArray(cause)
    ? trans.__('%1 (by %2 v%3)', text, plain(cause.subject), plain(cause.version))
    : text;
}
