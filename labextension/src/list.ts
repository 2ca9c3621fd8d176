/** The list of topics: the table topics first, then the others; with a filter once there are many. */
import type { TranslationBundle } from '@jupyterlab/translation';
import type { IOverview, IRow } from './api';
import { KeyedViews, arrange, css, h, setShown, setText } from './dom';
import type { IView } from './dom';
import { TopicRow } from './row';
import type { IRowActions, IRowData } from './row';
import type { Selection } from './selection';
import { needOf, stateWord } from './words';

/** From this many topics on, a filter is worth its space. */
const FILTER_FROM = 8;

/** The part of the overview to display. */
export interface IListData {
  readonly overview: IOverview;
  readonly nowMs: number;
  readonly staleMs: number | null;
  readonly warnLagSeconds: number;
  readonly pending: (topic: string) => string | null;
  readonly problem: (topic: string) => string | null;
}

interface IGroup {
  readonly node: HTMLElement;
  readonly title: HTMLElement;
  readonly list: HTMLElement;
}

/** Rows keep their elements from poll to poll, so focus, folds and scrolling remain too. */
export class TopicList implements IView<IListData> {
  constructor(
    actions: IRowActions,
    private readonly _selection: Selection,
    patterns: HTMLElement,
    private readonly _trans: TranslationBundle
  ) {
    this._filter = h('input', {
      type: 'search',
      class: `jp-mod-styled ${css('filter')}`,
      placeholder: _trans.__('Filter by name or state'),
      'aria-label': _trans.__('Filter topics')
    });
    this._filter.addEventListener('input', () => this._show());
    const orders = { need: _trans.__('What needs you first'), lag: _trans.__('Largest lag first'), name: _trans.__('By name') };
    const options = Object.entries(orders).map(([value, label]) => h('option', { value }, label));
    this._order = h('select', { class: css('order'), 'aria-label': _trans.__('Order of topics') }, ...options);
    this._order.addEventListener('change', () => {
      this._places.clear();
      this._show();
    });
    this._rows = new KeyedViews(
      data => data.row.topic,
      data => new TopicRow(data, actions, _trans)
    );
    this._on = this._group();
    this._off = this._group();
    this._none = h('p', { class: css('quiet') }, _trans.__('No topic matches.'));
    this._hint = h(
      'p',
      { class: css('hint') },
      _trans.__(
        'No topic is enabled. Enable one, and every record lands in an Iceberg table exactly once.'
      )
    );
    const several = h('div', { class: css('several') }, _selection.node, patterns);
    this.node = h('div', {}, this._filter, this._order, several, this._hint, this._on.node, this._off.node, this._none);
    this.node.addEventListener('keydown', event => this._move(event));
  }

  readonly node: HTMLElement;

  update(data: IListData): void {
    this._data = data;
    this._show();
  }

  /** Unfold a topic's row, which a filter may hide; returns its button, null without such a topic. */
  unfold(topic: string): HTMLElement | null {
    this._filter.value = '';
    this._show();
    const row = [...this.node.querySelectorAll<HTMLElement>('li[data-topic]')].find(each => each.dataset.topic === topic);
    const fold = row?.querySelector<HTMLElement>('[aria-expanded]') ?? null;
    if (fold?.getAttribute('aria-expanded') === 'false') {
      fold.click();
    }
    return fold;
  }

  private _show(): void {
    if (this._data === null) {
      return;
    }
    const topics = this._placed(this._data.overview.topics);
    setShown(this._filter, topics.length >= FILTER_FROM);
    setShown(this._order, topics.length >= FILTER_FROM);
    const wanted = this._filter.hidden ? '' : this._filter.value.trim().toLowerCase();
    const shown = wanted ? topics.filter(row => this._matches(row, wanted)) : topics;
    this._selection.update([...shown.filter(row => row.enabled), ...shown.filter(row => !row.enabled)]);
    const nodes = this._rows.update(shown.map(row => this._dataOf(row)));
    const focused = document.activeElement;
    const fill = (group: IGroup, enabled: boolean, title: string) =>
      this._fill(group, title, nodes.filter((_, index) => shown[index]?.enabled === enabled));
    fill(this._on, true, this._trans.__('Table topics'));
    fill(this._off, false, this._trans.__('Other Kafka topics'));
    if (focused instanceof HTMLElement && focused !== document.activeElement && this.node.contains(focused)) {
      focused.focus(); // the row of an enabled topic has moved up, and browsers drop the focus then
    }
    setShown(this._none, topics.length > 0 && shown.length === 0);
    setShown(this._hint, topics.length > 0 && topics.every(row => !row.enabled));
  }

  private _matches(row: IRow, wanted: string): boolean {
    return `${row.topic}\n${stateWord(row, this._trans)?.text ?? ''}`.toLowerCase().includes(wanted);
  }

  /** In order; while the pointer is on a row, as they were: no other row moves under a click. */
  private _placed(topics: readonly IRow[]): readonly IRow[] {
    const sorted = this._sorted(topics);
    const isHeld = [this._on, this._off].some(group => group.list.matches(':hover'));
    const place = (row: IRow) => this._places.get(row.topic) ?? this._places.size;
    const placed = isHeld ? [...sorted].sort((one, other) => place(one) - place(other)) : sorted;
    this._places = new Map(placed.map((row, index) => [row.topic, index]));
    return placed;
  }

  /** In the chosen order, else as the server has them: by name. */
  private _sorted(topics: readonly IRow[]): readonly IRow[] {
    switch (this._order.value) {
      case 'lag':
        return [...topics].sort((one, other) => (other.lag_records ?? -1) - (one.lag_records ?? -1));
      case 'need':
        return [...topics].sort((one, other) => needOf(one) - needOf(other));
      default:
        return topics;
    }
  }

  private _dataOf(row: IRow): IRowData {
    const { nowMs, staleMs, warnLagSeconds, pending, problem } = this._data as IListData;
    const { topic } = row;
    const selected = this._selection.isOpen ? this._selection.has(topic) : null;
    return { row, selected, warnLagSeconds, nowMs, staleMs, pending: pending(topic), problem: problem(topic) };
  }

  private _fill(group: IGroup, title: string, nodes: readonly HTMLElement[]): void {
    setShown(group.node, nodes.length > 0);
    setText(group.title, `${title} (${nodes.length})`);
    arrange(group.list, nodes);
  }

  private _group(): IGroup {
    const title = h('h3', { class: css('groupTitle') });
    const list = h('ul', { class: css('list'), role: 'list' });
    return { node: h('section', {}, title, list), title, list };
  }

  /** Arrow keys move to the same control in the next row. */
  private _move(event: KeyboardEvent): void {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const control = event.target instanceof HTMLElement ? event.target.closest<HTMLElement>('button, input') : null;
    const row = control?.closest<HTMLElement>('li[data-topic]') ?? null;
    if (step === undefined || control === null || row === null || control.closest('.jp-TableTopic-rowHead') === null) {
      return;
    }
    const rows = [...this.node.querySelectorAll<HTMLElement>('li[data-topic]')];
    const next = rows[rows.indexOf(row) + step];
    const kind = control.classList.item(0);
    next?.querySelector<HTMLElement>(`.jp-TableTopic-rowHead .${kind}`)?.focus();
    event.preventDefault();
  }

  private readonly _rows: KeyedViews<IRowData>;
  private readonly _filter: HTMLInputElement;
  private readonly _order: HTMLSelectElement;
  private readonly _hint: HTMLElement;
  private readonly _none: HTMLElement;
  private readonly _on: IGroup;
  private readonly _off: IGroup;
  private _data: IListData | null = null;
  /** By topic: its place in the list as it was last drawn. */
  private _places = new Map<string, number>();
}
