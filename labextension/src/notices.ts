/** Notifications when something needs a person: once per cause, with the button that helps. Many of a kind are one. */
import { Notification } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';
import type { IDisposable } from '@lumino/disposable';
import type { IOverview, IRow } from './api';
import { CommandIDs } from './commandids';
import type { WorkbenchModel } from './model';
import type { IOptions } from './options';
import { duration, number } from './words';

/** More notices of a kind than this, within a minute, are one. */
const SINGLY = 5;
const TOGETHER_MS = 60_000;
/** Topics that such a notice names. */
const NAMED = 3;
/** Events that are searched for a refused schema. */
const SEARCHED = 20;

interface INotice {
  readonly kind: string;
  readonly text: string;
  readonly type: 'error' | 'warning';
  readonly label: string;
  readonly command: string;
  readonly topic?: string;
  /** The words for many of this kind. */
  readonly many?: (count: string, topics: string) => string;
}

interface IShown {
  readonly topic: string;
  readonly atMs: number;
  /** The notification's, which several notices may share. */
  readonly id: string;
}

/** Follows the model; what was so when the page opened is no news. */
export class Notices implements IDisposable {
  constructor(
    private readonly _model: WorkbenchModel,
    private readonly _commands: CommandRegistry,
    private readonly _options: () => IOptions,
    private readonly _trans: TranslationBundle
  ) {
    _model.changed.connect(this._look, this);
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    this._model.changed.disconnect(this._look, this);
  }

  private _look(): void {
    const { overview, staleMs } = this._model;
    if (overview === null || overview === this._last || staleMs !== null) {
      return;
    }
    const before = this._last;
    this._last = overview;
    const causes = this._causes(overview);
    const fresh = [...causes].filter(([cause]) => !this._lasting.has(cause)).map(([, notice]) => notice);
    this._lasting = new Set([...causes.keys(), ...[...this._lasting].filter(cause => cause.startsWith('behind '))]);
    if (before === null || !this._options().notifications) {
      return;
    }
    const rows = new Map(before.topics.map(row => [row.topic, row]));
    for (const row of overview.topics) {
      const known = rows.get(row.topic)?.dead_letters ?? null;
      const added = (row.dead_letters ?? 0) - (known ?? 0);
      if (known !== null && added > 0 && !this._lettered.has(row.topic)) {
        this._lettered.add(row.topic);
        void this._refused(row, added, before.at_ms);
      }
    }
    this._show(fresh);
  }

  /** What needs a person now, and lasts: a host that ended; topics that failed, are behind, or are not enabled. */
  private _causes(overview: IOverview): Map<string, INotice> {
    const notices: INotice[] = overview.topics.flatMap(row => (row.enabled ? this._ofRow(row) : this._ofOther(row)));
    if (overview.host.state === 'failed') {
      const host = { kind: 'host', type: 'error', text: overview.host.detail } as const;
      notices.push({ ...host, label: this._trans.__('Start a Host'), command: CommandIDs.startHost });
    }
    return new Map(notices.map(notice => [`${notice.kind} ${notice.topic ?? ''}`, notice]));
  }

  private _ofRow({ topic, state, error, delay, lag_records, lag_seconds }: IRow): INotice[] {
    if (state === 'failed') {
      const text = this._trans.__('%1 failed: %2', topic, error ?? '');
      const label = this._trans.__('Resume');
      const many = (count: string, topics: string) => this._trans.__('%1 topics failed: %2', count, topics);
      return [{ kind: 'failed', type: 'error', text, label, command: CommandIDs.resume, topic, many }];
    }
    if (delay !== null && (lag_seconds ?? 0) > this._options().warnLagSeconds) {
      const age = duration(lag_seconds ?? 0);
      const records = this._trans._n('%2 record', '%2 records', lag_records ?? 0, number(lag_records ?? 0));
      const text = this._trans.__('%1 is behind: %2, the oldest for %3', topic, records, age);
      const label = this._trans.__('Open Dashboard');
      const many = (count: string, topics: string) => this._trans.__('%1 topics are behind: %2', count, topics);
      return [{ kind: 'behind', type: 'warning', text, label, command: CommandIDs.dashboard, topic, many }];
    }
    return [];
  }

  /** A standing pattern matches the topic, and could not enable it. */
  private _ofOther({ topic, error }: IRow): INotice[] {
    if (error === null) {
      return [];
    }
    const text = this._trans.__('%1 is not enabled: %2', topic, error);
    const label = this._trans.__('Settings and Plan…');
    const many = (count: string, topics: string) => this._trans.__('%1 topics are not enabled: %2', count, topics);
    return [{ kind: 'not enabled', type: 'error', text, label, command: CommandIDs.settings, topic, many }];
  }

  /** Dead letters, or the schema that caused them. */
  private async _refused({ topic }: IRow, added: number, sinceMs: number): Promise<void> {
    let text = this._trans.__('%1 has %2 new dead letters', topic, number(added));
    try {
      const { events } = await this._model.api.events(topic, SEARCHED);
      const schema = events.find(event => event.type === 'SchemaRefused' && event.at_ms > sinceMs - 60_000);
      text = schema === undefined ? text : this._trans.__('%1 refused a schema: %2', topic, schema.text);
    } catch {
      // The count alone is said.
    }
    const label = this._trans.__('Look at Dead Letters');
    const many = (count: string, topics: string) => this._trans.__('%1 topics have new dead letters: %2', count, topics);
    this._show([{ kind: 'dead letters', type: 'warning', text, label, command: CommandIDs.letters, topic, many }]);
  }

  private _show(notices: readonly INotice[]): void {
    const atMs = Date.now();
    for (const kind of new Set(notices.map(notice => notice.kind))) {
      const added = notices.filter(notice => notice.kind === kind);
      const shown = (this._shown.get(kind) ?? []).filter(earlier => earlier.atMs > atMs - TOGETHER_MS);
      const topics = [...new Set([...shown, ...added].map(({ topic }) => topic ?? ''))];
      if (topics.length <= SINGLY) {
        const more = added.map(notice => ({ topic: notice.topic ?? '', atMs, id: this._emit(notice) }));
        this._shown.set(kind, [...shown, ...more]);
        continue;
      }
      const ids = new Set(shown.map(({ id }) => id));
      const id = this._emit(this._together(added[0] as INotice, topics), ids.size === 1 ? [...ids][0] : undefined);
      ids.delete(id);
      ids.forEach(single => Notification.dismiss(single));
      this._shown.set(kind, topics.map(topic => ({ topic, atMs, id })));
    }
  }

  private _together({ kind, type, many }: INotice, topics: readonly string[]): INotice {
    const names = topics.slice(0, NAMED).join(', ');
    const rest = this._trans.__('%1 and %2 more', names, number(topics.length - NAMED));
    const label = this._trans.__('Show Table Topics');
    return { kind, type, text: many?.(number(topics.length), rest) ?? rest, label, command: CommandIDs.show };
  }

  /** Show it, in place of an earlier one if that is still there; returns its id. */
  private _emit({ text, type, label, command, topic }: INotice, earlier?: string): string {
    const callback = () => void this._commands.execute(command, topic === undefined ? {} : { topic });
    const options = { autoClose: type === 'error' ? (false as const) : 15_000, actions: [{ label, callback }] };
    if (earlier !== undefined && Notification.update({ id: earlier, message: text, type, ...options })) {
      return earlier;
    }
    return Notification.emit(text, type, options);
  }

  private _last: IOverview | null = null;
  /** Causes that last; a delay comes and goes, so it counts until the page is loaded again. */
  private _lasting = new Set<string>();
  /** Topics whose dead letters were told: each until the page is loaded again. */
  private readonly _lettered = new Set<string>();
  private readonly _shown = new Map<string, readonly IShown[]>();
  private _isDisposed = false;
}
