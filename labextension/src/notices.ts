/** Notifications when something needs a person: once per cause, with the button that helps. */
import { Notification } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';
import type { IDisposable } from '@lumino/disposable';
import type { IOverview, IRow } from './api';
import { CommandIDs } from './commandids';
import type { WorkbenchModel } from './model';
import type { IOptions } from './options';
import { duration, number } from './words';

/** More notices at once than this are one. */
const SINGLY = 3;
/** Events that are searched for a refused schema. */
const SEARCHED = 20;

interface INotice {
  /** The same for what happens again. */
  readonly cause: string;
  readonly text: string;
  readonly type: 'error' | 'warning';
  readonly label: string;
  readonly command: string;
  readonly topic?: string;
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
    const fresh = [...causes.values()].filter(notice => !this._lasting.has(notice.cause));
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
      const host = { cause: 'host', type: 'error', text: overview.host.detail } as const;
      notices.push({ ...host, label: this._trans.__('Start a Host'), command: CommandIDs.startHost });
    }
    return new Map(notices.map(notice => [notice.cause, notice]));
  }

  private _ofRow({ topic, state, error, delay, lag_records, lag_seconds }: IRow): INotice[] {
    if (state === 'failed') {
      const text = this._trans.__('%1 failed: %2', topic, error ?? '');
      const label = this._trans.__('Resume');
      return [{ cause: `failed ${topic}`, type: 'error', text, label, command: CommandIDs.resume, topic }];
    }
    if (delay !== null && (lag_seconds ?? 0) > this._options().warnLagSeconds) {
      const age = duration(lag_seconds ?? 0);
      const text = this._trans.__('%1 is behind: %2 records, the oldest for %3', topic, number(lag_records ?? 0), age);
      const label = this._trans.__('Open Dashboard');
      return [{ cause: `behind ${topic}`, type: 'warning', text, label, command: CommandIDs.dashboard, topic }];
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
    return [{ cause: `not_enabled ${topic}`, type: 'error', text, label, command: CommandIDs.settings, topic }];
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
    this._show([{ cause: '', type: 'warning', text, label, command: CommandIDs.letters, topic }]);
  }

  private _show(notices: readonly INotice[]): void {
    if (notices.length > SINGLY) {
      const label = this._trans.__('Show Table Topics');
      const text = this._trans.__('%1 topics need you', number(notices.length));
      this._show([{ cause: '', type: 'error', text, label, command: CommandIDs.show }]);
      return;
    }
    for (const { text, type, label, command, topic } of notices) {
      const callback = () => void this._commands.execute(command, topic === undefined ? {} : { topic });
      Notification.emit(text, type, { autoClose: type === 'error' ? false : 15_000, actions: [{ label, callback }] });
    }
  }

  private _last: IOverview | null = null;
  /** Causes that last; a delay comes and goes, so it counts until the page is loaded again. */
  private _lasting = new Set<string>();
  /** Topics whose dead letters were told: each until the page is loaded again. */
  private readonly _lettered = new Set<string>();
  private _isDisposed = false;
}
