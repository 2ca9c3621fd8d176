/** Topics by pattern: one plan over all that match, and the patterns that stay for topics that come later. */
import type { TranslationBundle } from '@jupyterlab/translation';
import { Debouncer } from '@lumino/polling';
import { reasonOf } from './api';
import type { IEnablings, IPatternWish, IStandingPattern } from './api';
import { css, h, setAttribute, setBusy, setShown, setText, textButton, words } from './dom';
import type { WorkbenchModel } from './model';
import { number } from './words';

/** A typing pause, after which the server plans. */
const PAUSE_MS = 400;
/** Names of topics that a standing pattern did not enable; the others are counted. */
const MOST_NAMES = 5;

/** The button that begins, and the panel with the plan and the standing patterns. */
export class PatternPanel {
  constructor(
    private readonly _model: WorkbenchModel,
    private readonly _trans: TranslationBundle
  ) {
    this._begin = textButton(_trans.__('Enable by pattern…'), () => this.open().focus());
    this._pattern = field('shop.*');
    this._exclude = field('*-retry, *.test');
    this._standing = h('input', { type: 'checkbox' });
    this._enable = textButton(_trans.__('Enable'), () => void this._run(), true);
    const close = textButton(_trans.__('Close'), () => this._close());
    this._panel = h(
      'section',
      { class: css('patterns'), 'aria-label': _trans.__('Enable by pattern') },
      h('label', {}, _trans.__('Topics'), this._pattern),
      h('label', {}, _trans.__('Except, with commas'), this._exclude),
      h('label', { class: css('check') }, this._standing, _trans.__('Also topics that come later')),
      this._status,
      this._plan,
      h('div', { class: css('patternEnd') }, this._enable, close),
      this._keptTitle,
      this._kept
    );
    this._panel.addEventListener('input', () => {
      setBusy(this._enable, true); // the plan on display is of something else
      void this._later.invoke();
    });
    this._panel.addEventListener('keydown', event => {
      if (event.key === 'Escape') {
        this._close();
      }
    });
    setShown(this._panel, false);
    this.node = h('div', {}, this._begin, this._panel);
  }

  readonly node: HTMLElement;

  /** Show the panel; returns the field to type into. */
  open(): HTMLElement {
    setShown(this._panel, true);
    setShown(this._begin, false);
    void this._list().then(() => this._look());
    return this._pattern;
  }

  /** Offer it where there is something to choose from. */
  update(topics: number): void {
    setShown(this._begin, this._panel.hidden && topics > 1);
  }

  private _close(): void {
    setShown(this._panel, false);
    setShown(this._begin, true);
    this._begin.focus(); // the button that was pressed is gone
  }

  private get _wish(): IPatternWish {
    const text = (input: HTMLInputElement) => input.value.trim();
    const wish = { pattern: text(this._pattern), exclude: text(this._exclude), standing: this._standing.checked };
    const kept = this._patterns.find(each => each.pattern === wish.pattern); // its settings stay, as this panel has none
    return kept === undefined ? wish : { ...wish, settings: kept.settings };
  }

  /** Plan what is typed. One plan at a time: over many topics it takes seconds. */
  private async _look(): Promise<void> {
    if (this._isPlanning) {
      return;
    }
    this._isPlanning = true;
    let wish: IPatternWish;
    do {
      wish = this._wish;
      await this._ask(wish);
    } while (!same(wish, this._wish));
    this._isPlanning = false;
  }

  private async _ask(wish: IPatternWish): Promise<void> {
    const trans = this._trans;
    setBusy(this._enable, true);
    if (wish.pattern === '') {
      this._draw([], trans.__('* stands for any text, ? for any character.'));
      return;
    }
    setText(this._status, trans.__('Planning…'));
    setAttribute(this._plan, 'aria-busy', 'true');
    try {
      const { topics } = await this._model.api.planPattern(wish);
      const able = topics.filter(each => each.refused.length === 0).length;
      const none = trans.__('All topics that match are enabled.');
      this._draw(topics, topics.length === 0 ? none : trans._n('%2 topic would be enabled', '%2 topics would be enabled', able, number(able)));
      setText(this._enable, trans.__('Enable (%1)', number(able)));
      setBusy(this._enable, able === 0 && !wish.standing);
    } catch (error) {
      this._draw([], reasonOf(error));
    }
    setAttribute(this._plan, 'aria-busy', null);
  }

  private _draw(topics: IEnablings['topics'], status: string): void {
    setText(this._status, status);
    setText(this._enable, this._trans.__('Enable'));
    this._plan.replaceChildren(
      ...topics.map(({ topic, table, refused, warnings }) =>
        refused.length > 0
          ? h('li', { class: css('refused') }, h('strong', {}, topic), ' ', ...words(refused.join('; ')))
          : h('li', {}, h('strong', {}, topic), ` → ${table}`, ...warnings.map(why => warning(why)))
      )
    );
    setShown(this._plan, topics.length > 0);
    setAttribute(this._plan, 'tabindex', topics.length > 0 ? '0' : null);
  }

  private async _run(): Promise<void> {
    setBusy(this._enable, true);
    if (await this._model.enablePattern(this._wish)) {
      await Promise.all([this._look(), this._list()]);
    } else {
      setBusy(this._enable, false); // the header says why
    }
  }

  /** Read the standing patterns. */
  private async _list(): Promise<void> {
    try {
      const { patterns } = await this._model.api.patterns();
      this._patterns = patterns;
      this._kept.replaceChildren(...patterns.map(each => this._item(each)));
    } catch (error) {
      this._kept.replaceChildren(h('li', { class: css('error') }, ...words(reasonOf(error))));
    }
    setShown(this._keptTitle, this._kept.firstChild !== null);
  }

  private _item(standing: IStandingPattern): HTMLElement {
    const trans = this._trans;
    const { pattern, exclude, settings, requested_by, enabled, disabled, others } = standing;
    const given = Object.entries(settings).map(([name, value]) => `${name} = ${JSON.stringify(value)}`);
    const facts = [
      exclude.length > 0 ? trans.__('without %1', exclude.join(', ')) : null,
      trans.__('%1 enabled', number(enabled.length)),
      disabled.length > 0 ? trans.__('disabled by somebody: %1', some(disabled)) : null,
      others.length > 0 ? trans.__('new, or cannot be enabled: %1', some(others)) : null,
      requested_by ? trans.__('set by %1', requested_by) : null,
      ...given
    ];
    const forget = textButton(trans.__('Forget'), () => void this._forget(pattern));
    forget.setAttribute('aria-label', trans.__('Forget the pattern %1', pattern));
    forget.title = trans.__('Enable no more topics by it; those that are enabled stay so');
    return h('li', {}, h('span', {}, h('strong', {}, pattern), ` ${facts.filter(fact => fact !== null).join(' · ')}`), forget);
  }

  private async _forget(pattern: string): Promise<void> {
    await this._model.forgetPattern(pattern);
    await this._list();
    this._pattern.focus(); // the button is gone
  }

  private readonly _begin: HTMLButtonElement;
  private readonly _panel: HTMLElement;
  private readonly _pattern: HTMLInputElement;
  private readonly _exclude: HTMLInputElement;
  private readonly _standing: HTMLInputElement;
  private readonly _status = h('p', { class: css('quiet'), role: 'status' });
  private readonly _plan = h('ul', { class: css('bulkPlan'), 'aria-label': this._trans.__('Plan') });
  private readonly _enable: HTMLButtonElement;
  private readonly _keptTitle = h('h3', { hidden: true }, this._trans.__('Standing patterns'));
  private readonly _kept = h('ul', { class: css('keptPatterns') });
  private readonly _later = new Debouncer(() => this._look(), PAUSE_MS);
  private _patterns: readonly IStandingPattern[] = [];
  private _isPlanning = false;
}

function warning(text: string): HTMLElement {
  return h('div', { class: css('error'), 'data-tone': 'warn' }, ...words(text));
}

function field(example: string): HTMLInputElement {
  return h('input', { type: 'text', class: 'jp-mod-styled', placeholder: example, spellcheck: 'false' });
}

function same(a: IPatternWish, b: IPatternWish): boolean {
  return a.pattern === b.pattern && a.exclude === b.exclude && a.standing === b.standing;
}

function some(names: readonly string[]): string {
  const more = names.length - MOST_NAMES;
  return names.slice(0, MOST_NAMES).join(', ') + (more > 0 ? `, +${number(more)}` : '');
}
