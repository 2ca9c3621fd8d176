/** One Kafka topic in the sidebar. */
import type { TranslationBundle } from '@jupyterlab/translation';
import { caretRightIcon, closeIcon, ellipsesIcon } from '@jupyterlab/ui-components';
import type { IRow } from './api';
import { Chip } from './chip';
import { css, h, iconButton, iconElement, setAttribute, setShown, setText, setWords } from './dom';
import type { IView } from './dom';
import type { RowDetails } from './details';
import { Switch } from './switch';
import { ago, duration, lagText, number, stateWord, withPage } from './words';
import type { IWord } from './words';

/** A row, and what else the model knows about it. */
export interface IRowData {
  readonly row: IRow;
  /** The server's time, ms since 1970. */
  readonly nowMs: number;
  /** How old the row is, ms; null while it is current. */
  readonly staleMs: number | null;
  readonly pending: string | null;
  readonly problem: string | null;
  readonly warnLagSeconds: number;
  /** Whether it is among the selected topics; null while none can be selected. */
  readonly selected: boolean | null;
}

/** The actions on a row. */
export interface IRowActions {
  toggle(row: IRow): void;
  menu(topic: string, at: DOMRect): void;
  dismiss(topic: string): void;
  /** With `range` also those between the last one and this. */
  select(topic: string, on: boolean, range: boolean): void;
  /** The part that unfolds below the row. */
  details(topic: string): RowDetails;
}

/** The view of a row: created once, then only differences are written. */
export class TopicRow implements IView<IRowData> {
  constructor(
    private _data: IRowData,
    private readonly _actions: IRowActions,
    private readonly _trans: TranslationBundle
  ) {
    const topic = _data.row.topic;
    const label = h('span', { class: css('name') }, topic);
    this._fold = h('button', { type: 'button', class: css('fold'), 'aria-expanded': 'false', title: topic });
    this._fold.append(iconElement(caretRightIcon), label);
    this._fold.addEventListener('click', () => this._unfold());
    this._switch = new Switch(_trans.__('%1: ingest into an Iceberg table', topic), () => _actions.toggle(this._data.row));
    this._box = h('input', { type: 'checkbox', class: css('box'), 'aria-label': _trans.__('Select %1', topic) });
    this._box.addEventListener('click', event => _actions.select(topic, this._box.checked, event.shiftKey));
    const menu = iconButton(ellipsesIcon, _trans.__('Actions for %1', topic), button =>
      _actions.menu(topic, button.getBoundingClientRect())
    );
    menu.setAttribute('aria-haspopup', 'menu');
    const close = iconButton(closeIcon, _trans.__('Dismiss'), () => _actions.dismiss(topic));
    this._problem = h('div', { class: css('problem'), role: 'alert' }, this._problemText, close);
    this.node = h(
      'li',
      { class: css('row') },
      h('div', { class: css('rowHead') }, this._box, this._fold, this._switch.node, menu),
      h('div', { class: css('rowState') }, this._chip.node, this._lag),
      h('div', { class: css('facts') }, this._facts, this._letters.node),
      this._error,
      this._problem
    );
    this.node.dataset.topic = topic;
    this.node.addEventListener('contextmenu', event => this._contextMenu(event));
  }

  readonly node: HTMLElement;

  update(data: IRowData): void {
    this._data = data;
    const { row, pending, problem } = data;
    const stale = data.staleMs !== null;
    const on = row.enabled;
    setAttribute(this.node, 'data-enabled', String(on));
    setAttribute(this.node, 'data-stale', stale ? 'true' : null);
    setShown(this._box, data.selected !== null);
    this._box.checked = data.selected === true;
    this._switch.update({ on, busy: pending !== null });
    this._chip.update(pending !== null ? { text: pending, tone: 'busy' } : stateWord(row, this._trans, stale));
    setText(this._lag, on ? lagText(row.lag_records, row.lag_seconds, this._trans) : this._size(row));
    const late = on && !stale && (row.lag_seconds ?? 0) > data.warnLagSeconds;
    setAttribute(this._lag, 'data-late', late ? 'true' : null);
    setAttribute(this._lag, 'title', this._lagTitle(row, late ? data.warnLagSeconds : null));
    this._showFacts(on ? this._factsOf(data) : []);
    this._letters.update(on ? this._lettersOf(row) : null);
    const why = stale && row.state !== 'failed' ? null : withPage(row.error ?? row.delay_reason, row);
    setWords(this._error, why ?? '');
    setAttribute(this._error, 'data-tone', row.state === 'failed' ? 'bad' : 'warn');
    setShown(this._error, why !== null);
    setWords(this._problemText, problem ?? '');
    setShown(this._problem, problem !== null);
    this._details?.update(data);
  }

  /** Unfold or fold the details. */
  private _unfold(): void {
    const open = this._fold.getAttribute('aria-expanded') !== 'true';
    setAttribute(this._fold, 'aria-expanded', String(open));
    if (this._details === null) {
      this._details = this._actions.details(this._data.row.topic);
      this.node.append(this._details.node);
    }
    setShown(this._details.node, open);
    this._details.update(this._data);
  }

  private _contextMenu(event: MouseEvent): void {
    event.preventDefault();
    event.stopPropagation();
    this._actions.menu(this._data.row.topic, new DOMRect(event.clientX, event.clientY, 0, 0));
  }

  private _lagTitle(row: IRow, limit: number | null): string | null {
    if (!row.enabled || row.lag_records === null) {
      return null;
    }
    const records = this._trans._n(
      '%2 record of the topic is not in the table yet',
      '%2 records of the topic are not in the table yet',
      row.lag_records,
      number(row.lag_records)
    );
    return limit === null ? records : this._trans.__('%1, the oldest for more than %2', records, duration(limit));
  }

  private _size(row: IRow): string {
    const partitions = this._trans._n('%2 partition', '%2 partitions', row.partitions, number(row.partitions));
    return row.rows === null
      ? partitions
      : `${this._trans._n('table with %2 row', 'table with %2 rows', row.rows, number(row.rows))} · ${partitions}`;
  }

  private _showFacts(facts: readonly string[]): void {
    setShown(this._facts, facts.length > 0);
    while (this._facts.childElementCount < facts.length) {
      this._facts.append(h('span'));
    }
    [...this._facts.children].forEach((span, index) => setText(span, facts[index] ?? ''));
  }

  private _factsOf({ row, nowMs, staleMs }: IRowData): string[] {
    const facts: string[] = [];
    if (staleMs !== null) {
      facts.push(this._trans.__('as of %1', ago(nowMs - staleMs, nowMs, this._trans)));
    }
    if (row.paused_by !== null) {
      facts.push(this._trans.__('by %1', row.paused_by));
    }
    if (staleMs === null && row.caught_up_s !== null) {
      facts.push(this._trans.__('about %1 left', duration(row.caught_up_s)));
    }
    if (row.schema_version !== null) {
      facts.push(this._trans.__('schema %1', row.schema_version));
    }
    if (staleMs === null && row.rows_per_second !== null && row.rows_per_second > 0) {
      facts.push(this._trans.__('%1 rows/s', number(row.rows_per_second)));
    }
    if (row.last_commit_ms !== null) {
      facts.push(this._trans.__('commit %1', ago(row.last_commit_ms, nowMs, this._trans)));
    } else if (row.commits !== null && row.commits > 0) {
      facts.push(this._trans._n('%2 commit', '%2 commits', row.commits, number(row.commits)));
    }
    return facts;
  }

  /** Records that are in no table need somebody to act, so they are highlighted. */
  private _lettersOf(row: IRow): IWord | null {
    const count = row.dead_letters ?? 0;
    return count > 0
      ? { text: this._trans._n('%2 dead letter', '%2 dead letters', count, number(count)), tone: 'warn' }
      : null;
  }

  private readonly _box: HTMLInputElement;
  private readonly _fold: HTMLButtonElement;
  private readonly _switch: Switch;
  private readonly _chip = new Chip();
  private readonly _lag = h('span', { class: css('lag') });
  private readonly _facts = h('span', { class: css('factTexts') });
  private readonly _letters = new Chip();
  private readonly _error = h('div', { class: css('error') });
  private readonly _problem: HTMLElement;
  private readonly _problemText = h('span');
  private _details: RowDetails | null = null;
}
