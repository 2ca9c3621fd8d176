/** Announces changes to screen readers: never every poll, never a flood. */
import type { TranslationBundle } from '@jupyterlab/translation';
import type { IDisposable } from '@lumino/disposable';
import type { IOverview, IRow } from './api';
import { css, h } from './dom';
import type { WorkbenchModel } from './model';
import { stateWord } from './words';

/** More simultaneous changes than this are announced as a number. */
const SINGLY = 3;

/** An invisible live region that follows the model. */
export class Announcer implements IDisposable {
  constructor(
    private readonly _model: WorkbenchModel,
    private readonly _trans: TranslationBundle
  ) {
    this.node = h('div', { class: css('announcer'), 'aria-live': 'polite', role: 'status' });
    _model.changed.connect(this._look, this);
    _model.said.connect(this._said, this);
  }

  readonly node: HTMLElement;

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    this._model.changed.disconnect(this._look, this);
    this._model.said.disconnect(this._said, this);
  }

  private _said(_: WorkbenchModel, text: string): void {
    this.node.textContent = text;
  }

  private _look(): void {
    const { overview } = this._model;
    if (overview === null || overview === this._last) {
      return;
    }
    const changes = this._last === null ? [] : this._changes(overview);
    this._states = this._statesOf(overview);
    this._last = overview;
    if (changes.length > SINGLY) {
      this.node.textContent = this._trans.__('%1 topics changed state', changes.length);
    } else if (changes.length > 0) {
      this.node.textContent = changes.join('. ');
    }
  }

  private _changes(overview: IOverview): string[] {
    const changes: string[] = [];
    for (const [topic, state] of this._statesOf(overview)) {
      if (state !== this._states.get(topic) && state !== '') {
        changes.push(`${topic}: ${state}`);
      }
    }
    if (overview.host.state !== this._last?.host.state && overview.host.detail) {
      changes.push(overview.host.detail);
    }
    return changes;
  }

  private _statesOf(overview: IOverview): Map<string, string> {
    const words = (row: IRow) => [stateWord(row, this._trans)?.text, row.error].filter(text => text).join(', ');
    return new Map(overview.topics.map(row => [row.topic, words(row)]));
  }

  private _last: IOverview | null = null;
  private _states = new Map<string, string>();
  private _isDisposed = false;
}
