/** The lag of all tables, in the status bar. */
import type { TranslationBundle } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';
import { css, h, iconElement, setAttribute, setText } from './dom';
import { topicIcon } from './icons';
import type { WorkbenchModel } from './model';
import { shownProfile } from './profiles';
import { duration, number } from './words';

/** A button that opens the sidebar; above the limit it warns by colour, sign and words. */
export class LagStatus extends Widget {
  constructor(
    private readonly _model: WorkbenchModel,
    private readonly _warnLagSeconds: () => number,
    private readonly _trans: TranslationBundle,
    open: () => void
  ) {
    super();
    this.addClass(css('statusItem'));
    this._button.append(iconElement(topicIcon), this._text);
    this._button.addEventListener('click', open);
    this.node.append(this._button);
    _model.changed.connect(this.update, this);
    this.update();
  }

  override dispose(): void {
    this._model.changed.disconnect(this.update, this);
    super.dispose();
  }

  protected override onUpdateRequest(): void {
    const words = this._words();
    const profile = shownProfile(this._model.overview);
    const text = profile === null ? words.text : `${profile} · ${words.text}`;
    const { more, warn } = words;
    setText(this._text, text);
    setAttribute(this._button, 'title', more);
    setAttribute(this._button, 'aria-label', `${text}. ${more}`);
    setAttribute(this._button, 'data-warn', warn ? 'true' : null);
  }

  private _words(): { text: string; more: string; warn: boolean } {
    const trans = this._trans;
    const { overview, trouble } = this._model;
    const open = trans.__('Opens the list of table topics');
    if (trouble !== null) {
      return { text: trans.__('lag unknown'), more: trouble, warn: true };
    }
    if (overview?.servers.state === 'unreachable') {
      return { text: trans.__('servers unreachable'), more: overview.servers.detail, warn: true };
    }
    if (overview === null) {
      return { text: trans.__('connecting…'), more: open, warn: false };
    }
    if (overview.servers.state === 'starting') {
      return { text: trans.__('servers starting…'), more: overview.servers.detail, warn: false };
    }
    if (overview.servers.state === 'stopping') {
      return { text: trans.__('servers stopping…'), more: overview.servers.detail, warn: false };
    }
    if (overview.servers.state !== 'ready') {
      return { text: trans.__('no servers'), more: open, warn: false };
    }
    const on = overview.topics.filter(row => row.enabled);
    if (on.length === 0) {
      return { text: trans.__('no table topics'), more: open, warn: false };
    }
    const standing = on.filter(row => row.state === 'failed' || row.state === 'no_host').length;
    const seconds = overview.lag_seconds ?? 0;
    const delayed = on.filter(row => row.delay !== null).length;
    const late = seconds > this._warnLagSeconds();
    const lag = trans.__('lag %1', number(overview.lag_records));
    const text = seconds > 0 && overview.lag_records > 0 ? `${lag} · ${duration(seconds)}` : lag;
    const count = trans._n('%1 table topic', '%1 table topics', on.length);
    const more =
      standing > 0
        ? trans._n('%1 topic is not being ingested. %2', '%1 topics are not being ingested. %2', standing, open)
        : late
          ? trans.__('%1, more than %2 behind', count, duration(this._warnLagSeconds()))
          : delayed > 0
            ? trans._n('%1 table is more than 3 commits late. %2', '%1 tables are more than 3 commits late. %2', delayed, open)
            : trans.__('%1. %2', count, open);
    return { text, more, warn: late || delayed > 0 || standing > 0 };
  }

  private readonly _button = h('button', { type: 'button', class: css('statusButton') });
  private readonly _text = h('span');
}
