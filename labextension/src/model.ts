/** The displayed state: the newest overview, actions in progress, and errors. */
import type { TranslationBundle } from '@jupyterlab/translation';
import type { IDisposable } from '@lumino/disposable';
import { Poll } from '@lumino/polling';
import { Signal } from '@lumino/signaling';
import { Actions } from './actions';
import { ApiError, reasonOf } from './api';
import type { IOverview, IPatternWish, IReplayPlan, IRow, ISelectedLetters, Settings, TopicApi } from './api';

/** With the sidebar closed only the status bar polls: this many times less often. */
const UNWATCHED_FACTOR = 5;
/** While something is in progress, polls are more frequent. */
const BUSY_MS = 1_000;
/** Longest wait between two attempts while Jupyter does not respond. */
const MAX_WAIT_MS = 15_000;

/** The key for what concerns no single topic. */
export const GENERAL = '';

/** The overview by polling, and the actions; `changed` signals something new to display. */
export class WorkbenchModel implements IDisposable {
  constructor(
    readonly api: TopicApi,
    private readonly _trans: TranslationBundle
  ) {
    this._poll = new Poll({
      name: '@tabletopic/lab:overview',
      factory: () => this._look(),
      frequency: { interval: this._periodMs * UNWATCHED_FACTOR, backoff: true, max: MAX_WAIT_MS },
      standby: 'when-hidden'
    });
    this._actions = new Actions({
      changed: () => {
        this._setFrequency();
        this.changed.emit();
      },
      said: words => this.said.emit(words),
      done: () => void this.refresh()
    });
  }

  /** Something on display has changed. */
  readonly changed = new Signal<this, void>(this);

  /** A user's action has ended, in words. */
  readonly said = new Signal<this, string>(this);

  /** The newest overview; null before the first. */
  get overview(): IOverview | null {
    return this._overview;
  }

  /** Why no overview is available; null while it is. */
  get trouble(): string | null {
    return this._trouble;
  }

  /** The server's time now, ms since 1970. */
  get nowMs(): number {
    return (this._overview?.at_ms ?? 0) + (this._trouble === null ? 0 : Date.now() - this._gotMs);
  }

  /** How old the displayed topics are, ms; null while they are current. */
  get staleMs(): number | null {
    const seen = this._overview?.seen_ms ?? null;
    const stale = this._trouble !== null || this._overview?.servers.state !== 'ready';
    return stale && seen !== null ? Math.max(0, this.nowMs - seen) : null;
  }

  get isDisposed(): boolean {
    return this._poll.isDisposed;
  }

  dispose(): void {
    this._poll.dispose();
    Signal.clearData(this);
  }

  /** Poll at this period while somebody watches. */
  set periodMs(value: number) {
    this._periodMs = value;
    this._setFrequency();
  }

  /** Whether a view of single topics is open. */
  set watched(value: boolean) {
    if (value !== this._watched) {
      this._watched = value;
      this._setFrequency();
      if (value) {
        void this.refresh();
      }
    }
  }

  /** Poll now. */
  async refresh(): Promise<void> {
    await this._poll.refresh();
    await this._poll.tick.catch(() => undefined); // `trouble` reports the error
  }

  /** The row of a topic; undefined if there is none. */
  row(topic: string): IRow | undefined {
    return this._overview?.topics.find(row => row.topic === topic);
  }

  /** The action in progress on a topic (or on all: GENERAL), in words; null for none. */
  pending(topic: string): string | null {
    return this._actions.pending(topic);
  }

  /** Why the last action on a topic (or on all: GENERAL) failed; null if it did not. */
  problem(topic: string): string | null {
    return this._actions.problem(topic);
  }

  /** The user has read it. */
  dismiss(topic: string): void {
    this._actions.dismiss(topic);
  }

  /** Enable a topic with these settings; the server's apply for those not given. */
  enable(topic: string, settings: Settings = {}): Promise<boolean> {
    return this._actions.run(topic, this._trans.__('enabling…'), () => this.api.enable(topic, settings), {
      done: () => this.row(topic)?.enabled === true,
      said: this._trans.__('%1 is enabled', topic)
    });
  }

  disable(topic: string): Promise<boolean> {
    return this._actions.run(topic, this._trans.__('disabling…'), () => this.api.disable(topic), {
      done: () => this.row(topic)?.enabled !== true,
      said: this._trans.__('%1 is disabled; its table stays', topic)
    });
  }

  /** Enable the topics of a pattern that can be. */
  enablePattern(wish: IPatternWish): Promise<boolean> {
    return this._actions.run(GENERAL, this._trans.__('Enabling %1…', wish.pattern), () => this.api.enablePattern(wish), {
      said: this._trans.__('%1 is enabled', wish.pattern)
    });
  }

  forgetPattern(pattern: string): Promise<boolean> {
    return this._actions.run(GENERAL, this._trans.__('Ending %1…', pattern), () => this.api.forgetPattern(pattern), {
      said: this._trans.__('%1 enables no more topics', pattern)
    });
  }

  pause(topic: string): Promise<boolean> {
    return this._actions.run(topic, this._trans.__('pausing…'), () => this.api.tell(topic, 'pause'), {
      done: () => this.row(topic)?.run === 'paused',
      said: this._trans.__('%1 is pausing', topic)
    });
  }

  resume(topic: string): Promise<boolean> {
    return this._actions.run(topic, this._trans.__('resuming…'), () => this.api.tell(topic, 'resume'), {
      done: () => this.row(topic)?.run === 'on',
      said: this._trans.__('%1 resumes', topic)
    });
  }

  commit(topic: string): Promise<boolean> {
    return this._actions.run(topic, this._trans.__('requesting a commit…'), () => this.api.tell(topic, 'commit'), {
      said: this._trans.__('Requested a commit of %1', topic)
    });
  }

  compact(topic: string): Promise<boolean> {
    return this._actions.run(topic, this._trans.__('requesting a compaction…'), () => this.api.tell(topic, 'compact'), {
      said: this._trans.__('Requested a compaction of %1; an event will report the outcome', topic)
    });
  }

  expire(topic: string): Promise<boolean> {
    return this._actions.run(topic, this._trans.__('requesting an expiry…'), () => this.api.tell(topic, 'expire'), {
      said: this._trans.__('Requested an expiry of old snapshots of %1; an event will report the outcome', topic)
    });
  }

  /** What a replay of the dead letters would do; null if unknown, and `problem` then says why. */
  async planReplay(topic: string, letters: ISelectedLetters): Promise<IReplayPlan | null> {
    let plan: IReplayPlan | null = null;
    await this._actions.run(topic, this._trans.__('reading the dead letters…'), async () => {
      plan = await this.api.planReplay(topic, letters);
    }, {});
    return plan;
  }

  replay(topic: string, letters: ISelectedLetters): Promise<boolean> {
    return this._actions.run(topic, this._trans.__('requesting a replay…'), () => this.api.replay(topic, letters), {
      said: this._trans.__('Replaying the dead letters of %1; an event will report the outcome', topic)
    });
  }

  startStack(): Promise<boolean> {
    return this._actions.run(GENERAL, this._trans.__('Starting the local stack…'), () => this.api.startStack(), {
      done: overview => overview.servers.state !== 'none' && overview.servers.missing.length === 0
    });
  }

  stopStack(): Promise<boolean> {
    return this._actions.run(GENERAL, this._trans.__('Stopping the local stack…'), () => this.api.stopStack(), {
      done: overview => overview.servers.state === 'none',
      said: this._trans.__('The local stack is stopped; topics and tables stay')
    });
  }

  startHost(): Promise<boolean> {
    return this._actions.run(GENERAL, this._trans.__('Starting a host…'), () => this.api.startHost(), {
      done: overview => overview.host.state !== 'none'
    });
  }

  stopHost(): Promise<boolean> {
    return this._actions.run(GENERAL, this._trans.__('Stopping the host…'), () => this.api.stopHost(), {
      said: this._trans.__('The host is stopped')
    });
  }

  sendSample(count: number): Promise<boolean> {
    return this._actions.run(GENERAL, this._trans.__('Sending sample events…'), () => this.api.sample(count), {
      done: overview => overview.topics.some(row => row.topic === 'clicks'),
      said: this._trans.__('Sending sample events to the topic clicks')
    });
  }

  private async _look(): Promise<void> {
    try {
      const overview = await this.api.overview();
      this.api.profile ??= overview.profile;
      if (overview.profile !== this.api.profile) {
        throw new ApiError(this._trans.__('JupyterLab uses the profile %1 now: reload this page.', overview.profile), 409);
      }
      this._overview = withHostOnItsWay(overview);
      this._trouble = null;
      this._gotMs = Date.now();
    } catch (error) {
      this._trouble = this._troubleOf(error);
      this.changed.emit();
      throw error; // the poll waits longer before it retries
    }
    this._actions.settle(this._overview);
    this._setFrequency();
    this.changed.emit();
  }

  private _troubleOf(error: unknown): string {
    const status = error instanceof ApiError ? error.status : 0;
    if (status === 404) {
      return this._trans.__(
        'Table Topic’s server extension is not running: restart Jupyter after installing it, ' +
          'and check that “jupyter server extension list” lists tabletopic_kernel.'
      );
    }
    if (status === 403 || status === 401) {
      return this._trans.__('You are no longer logged in: reload the page to log in.');
    }
    if (status === 0) {
      return this._trans.__('Jupyter does not respond; the data below may be stale. Retrying automatically.');
    }
    return reasonOf(error);
  }

  private _setFrequency(): void {
    const watched = this._isBusy ? Math.min(this._periodMs, BUSY_MS) : this._periodMs;
    const interval = this._watched ? watched : this._periodMs * UNWATCHED_FACTOR;
    this._poll.frequency = { interval, backoff: true, max: Math.max(MAX_WAIT_MS, interval) };
  }

  /** Whether the user waits: for the servers, a host, an action, or the first rows of a table. */
  private get _isBusy(): boolean {
    const overview = this._overview;
    return (
      this._actions.areUnderWay ||
      (overview !== null &&
        (overview.servers.state === 'starting' ||
          overview.servers.state === 'stopping' ||
          overview.host.state === 'starting' ||
          overview.sample.state === 'sending' ||
          overview.topics.some(row => row.run === 'on' && row.error === null && !row.commits && row.lag_records !== 0)))
    );
  }

  private readonly _poll: Poll;
  private readonly _actions: Actions;
  private _overview: IOverview | null = null;
  private _trouble: string | null = null;
  private _gotMs = 0;
  private _periodMs = 2_000;
  private _watched = false;
}

/** While a host starts, it is no error that nobody runs a topic yet. */
function withHostOnItsWay(overview: IOverview): IOverview {
  if (overview.host.state !== 'starting') {
    return overview;
  }
  const topics = overview.topics.map(row =>
    row.state === 'no_host' ? { ...row, state: 'starting', standing: 'starting', error: null } : row
  );
  return { ...overview, topics };
}
